"""Which versions are to blame when an engine goes wrong: those it loaded since it last answered as it should.

Nothing is blamed that was there while the base answered well, and of what came since at most `SUSPECTS_MAX`, the
newest: a machine that is sick by itself must not cost a catalogue.
"""

from collections.abc import Iterable

from hotset.core.ids import EngineName

#: Versions that one incident may be blamed on.
SUSPECTS_MAX = 4


class Trials:
    """Versions on trial in one engine; each is tried once in the engine's life."""

    def __init__(self) -> None:
        #: Versions that this engine loaded before.
        self._known: set[EngineName] = set()
        #: In the order in which they came.
        self._on_trial: dict[EngineName, None] = {}

    def begins(self, name: EngineName) -> bool:
        """A version was loaded; whether that is its first load here, with which its trial begins."""
        if name in self._known:
            return False
        self._known.add(name)
        self._on_trial[name] = None
        return True

    def try_again(self, name: EngineName) -> None:
        """Nothing came of a version's trial: it begins again when it is asked for again."""
        self._known.discard(name)

    def on_trial(self) -> tuple[EngineName, ...]:
        """Return the versions on trial, in the order in which they came."""
        return tuple(self._on_trial)

    def passed(self, names: Iterable[EngineName]) -> None:
        """The base answered well, asked after these versions were loaded."""
        for name in names:
            self._on_trial.pop(name, None)

    def suspects(self) -> tuple[EngineName, ...]:
        """Return whom to blame, the newest first."""
        return tuple(reversed(self._on_trial))[:SUSPECTS_MAX]
