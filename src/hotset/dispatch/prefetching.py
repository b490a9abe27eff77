"""Brings in what is at home here before anybody asks for it: its files, and of busy versions the load as well. Pure.

It comes after everything that somebody waits for. One fetch or load at a time; files come while there is room for them
without another version's leaving and within their owner's limit, those that are not busy into half of the local store
only. A load goes into an empty
slot within its owner's reserve, by the same decision as a request's: churn and stall budgets hold. What failed is left
to the first request, or to the next word of who is at home here.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hotset.core.ids import EngineName, RequestId
from hotset.residency.charges import num_used_up
from hotset.residency.events import Effect, Fetch, Load, Requested
from hotset.residency.residency import Residency
from hotset.residency.slots import SlotState
from hotset.routing.standing import HomeHere

#: No request is called this: it takes no lease, and nobody is told what comes of it.
_NOBODY = RequestId("")
#: The part of the local store that versions may fill by which nobody is known to set store.
_SHARE_OF_QUIET = 0.5


@dataclass(frozen=True, slots=True)
class Homes:
    """The versions that are at home here from now on, those that matter most first."""

    here: tuple[HomeHere, ...]


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """A version's files did not come."""

    name: EngineName


class Prefetch:
    """What is still to be brought in, in order."""

    def __init__(self, residency: Residency) -> None:
        """Begin with nothing at home here."""
        self._residency = residency
        self._due: deque[HomeHere] = deque()
        self._fetching: EngineName | None = None
        #: When time alone will let a load begin that waits for it, monotonic seconds; None where none does.
        self.look_again_at_s: float | None = None

    def aim(self, homes: Iterable[HomeHere]) -> None:
        """Bring these in from now on, and nothing else."""
        self._due = deque(homes)

    def ended(self, name: EngineName, *, is_here: bool) -> None:
        """A fetch ended, well or not."""
        if self._fetching == name:
            self._fetching = None
        if not is_here and self._due and self._due[0].name == name:
            self._due.popleft()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to bring in."""
        return not self._due

    def clear(self) -> None:
        """The engine is gone, and with it whatever was to be done."""
        self._due.clear()
        self._fetching = None

    def next(self, sizes: Mapping[EngineName, int], now_s: float, *, may_load: bool) -> list[Effect]:
        """Return what to bring in now, where nobody waits for a slot or a load.

        Args:
            sizes: Bytes of each version's files.
            now_s: Monotonic seconds.
            may_load: Whether nobody waits for the engine either: a load stalls it.
        """
        state, self.look_again_at_s = self._residency.state, None
        while self._due and self._fetching is None:
            home = self._due[0]
            is_wanted = home.name in state.permitted and home.name not in state.promises
            if is_wanted and home.name not in state.warm:
                if self._fits(home, sizes.get(home.name, 0)):
                    self._fetching = home.name
                    return [Fetch(home.name, home.owner)]
            elif is_wanted and home.is_busy and self._may_take(home):
                effects = self._load(home, now_s) if may_load else None
                if effects is None:
                    return []  # its time is still to come
                if effects:
                    self._due.popleft()
                    return effects
            self._due.popleft()
        return []

    def _fits(self, home: HomeHere, num_bytes: int) -> bool:
        warm, limit_bytes = self._residency.state.warm, self._residency.accounts.share(home.owner).limit_bytes
        most = warm.bytes_max * (1.0 if home.is_busy else _SHARE_OF_QUIET)
        return warm.total + num_bytes <= most and warm.held(home.owner) + num_bytes <= limit_bytes

    def _may_take(self, home: HomeHere) -> bool:
        """Whether the version's owner has a slot to come yet, and there is an empty one."""
        state, reserve = self._residency.state, self._residency.accounts.share(home.owner).reserve
        return num_used_up(state, home.owner) < reserve and any(slot.state is SlotState.EMPTY for slot in state.slots)

    def _load(self, home: HomeHere, now_s: float) -> list[Effect] | None:
        """Ask for a load as a request would that takes no lease; nothing where it is refused, None where it waits."""
        requested = Requested(_NOBODY, home.name, home.owner, is_forerunner=True)
        decision = self._residency.decide(requested, now_s)
        if decision.refusal is not None:
            self.look_again_at_s = None if decision.again_in_s is None else now_s + decision.again_in_s
            return None if decision.may_wait else []
        if decision.room[0].state is not SlotState.EMPTY:
            return []
        effects = self._residency.carry_out(requested, decision, now_s)
        return [replace(effect, is_prefetch=True) if isinstance(effect, Load) else effect for effect in effects]
