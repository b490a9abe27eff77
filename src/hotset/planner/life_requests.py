"""The requests of one simulated engine's life, and what its agent hears of them."""

from dataclasses import dataclass
from typing import Protocol

from hotset.core.errors import AdapterColdError, HotsetError, LoadFailedError, SlotsFullError, TooManyRequestsError
from hotset.core.ids import EngineName, RequestId
from hotset.core.ports import Lane, Work
from hotset.planner.protocol import Stamp
from hotset.sim.world import Timer


class LifeOwner(Protocol):
    """The agent of a life: hears what becomes of requests."""

    def accepted(self, request: RequestId, lane: Lane, queue_s: float) -> None:
        """It goes to the engine; so long it waited for that after its version was in its slot."""
        ...

    def refused(self, request: RequestId, code: str, retry_after_ms: int | None) -> None:
        """It holds nothing any more."""
        ...

    def token(self, request: RequestId, stamp: Stamp) -> None:
        """A token came."""
        ...

    def ended(self, request: RequestId, code: str) -> None:
        """The engine is done with it; the code is empty where the answer is whole."""
        ...

    def life_ended(self) -> None:
        """The engine is gone."""
        ...


@dataclass(slots=True)
class LifeRequest:
    """One request, from its arrival until its lease ends."""

    work: Work
    name: EngineName | None
    lane: Lane
    #: Ends its wait; None once it is dispatched.
    timer: Timer | None = None
    has_begun: bool = False
    is_aborting: bool = False

    @property
    def input_tokens(self) -> int:
        """Tokens of its prompts."""
        return sum(len(prompt) for prompt in self.work.generate.prompts or ())

    @property
    def num_sequences(self) -> int:
        """Sequences that it takes in the engine."""
        return self.work.generate.n * len(self.work.generate.prompts or (None,))

    def stop_waiting(self) -> None:
        """Its wait is over, however it ended."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def late_error(self, *, waits_for_slot: bool) -> type[HotsetError]:
        """Return what it hears whose wait took too long, as `worker.engine_life` says it.

        Args:
            waits_for_slot: And not for a load or a place.
        """
        if self.lane == "hot":
            return TooManyRequestsError
        if self.work.budget_ms is not None:
            return AdapterColdError
        return SlotsFullError if waits_for_slot else LoadFailedError
