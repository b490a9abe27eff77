"""The versions that one agent loads no more, since its engine went wrong soon after they were loaded.

They are held back here at once. Control hears of them once a fresh engine without them was found sound: until then the
machine may be what is wrong. Control's own quarantine takes a version out of the snapshot, and ends the hold; so does a
release, which an agent may see without having seen the quarantine before it.
"""

from collections.abc import Container, Iterable, Mapping

from hotset.core.fleet import FlawCode, Suspicion
from hotset.core.ids import EngineName


class Holds(Container[EngineName]):
    """Of one agent, over all its engines."""

    def __init__(self, first_incident: int) -> None:
        """Begin with none.

        Args:
            first_incident: Above that of any incident which another start of this agent told of.
        """
        self._incident = first_incident
        self._suspicions: dict[EngineName, Suspicion] = {}
        #: Held back, and nobody told yet.
        self._untold: set[EngineName] = set()

    def __contains__(self, name: object) -> bool:
        """Whether this version is held back."""
        return name in self._suspicions

    def blame(self, suspects: Iterable[EngineName], flaw: FlawCode, releases: Mapping[EngineName, int]) -> None:
        """Hold versions back for one incident, each as of so many releases of its bytes."""
        self._incident += 1
        for name in suspects:
            self._suspicions[name] = Suspicion(
                version=name, flaw=flaw, incident=self._incident, num_releases=releases.get(name, 0)
            )
            self._untold.add(name)

    def confirm(self) -> None:
        """A fresh engine is sound without what is held back: control may hear of it."""
        self._untold.clear()

    def keep(self, permitted: Container[EngineName], releases: Mapping[EngineName, int]) -> None:
        """Hold nothing back that the snapshot does not permit, or that was released since: both are control's word."""
        self._suspicions = {
            name: each
            for name, each in self._suspicions.items()
            if name in permitted and each.num_releases >= releases.get(name, 0)
        }
        self._untold.intersection_update(self._suspicions)

    def told(self) -> tuple[Suspicion, ...]:
        """Return what control is to hear."""
        return tuple(each for name, each in self._suspicions.items() if name not in self._untold)
