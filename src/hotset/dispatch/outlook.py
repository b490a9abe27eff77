"""When a request's first token will come on this worker, from what residency and the fair queue hold and have shown.

Loads are carried out one at a time, so a load waits for those asked for before it, and for the worker's stall budget.
"""

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import NOTHING, FirstTokenTimes, Prediction, SourceTier
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.residency.residency import Residency


class Outlook:
    """Watches one worker's loads and requests, and predicts."""

    def __init__(self, residency: Residency, queue: FairQueue) -> None:
        self.times = FirstTokenTimes()
        self._residency = residency
        self._queue = queue
        #: Bytes of each version that may be served.
        self.sizes: dict[EngineName, int] = {}
        #: Loads asked for and not answered, in order, with where each comes from.
        self._loads: dict[EngineName, SourceTier] = {}
        #: Since when the first of them is under way.
        self._load_began_s = 0.0
        #: Since when each dispatched request is in the engine.
        self._dispatched_at_s: dict[RequestId, float] = {}

    # --- what is watched -------------------------------------------------------------------------------

    def load_asked(self, name: EngineName, now_s: float) -> None:
        """A load was asked for."""
        if not self._loads:
            self._load_began_s = now_s
        self._loads[name] = self._tier(name)

    def load_ended(self, name: EngineName, load_s: float | None, now_s: float) -> None:
        """A load ended: well, in so many seconds, or not (None)."""
        tier = self._loads.pop(name, None)
        self._load_began_s = now_s
        if tier is not None and load_s is not None:
            self.times.loaded(tier, self.sizes.get(name, 0), load_s)

    def dispatched(self, request: RequestId, now_s: float) -> None:
        """A request got its place in the engine."""
        self._dispatched_at_s[request] = now_s

    def first_token(self, request: RequestId, now_s: float) -> None:
        """A request's first token came."""
        if request in self._dispatched_at_s:
            self.times.prompt.add(now_s - self._dispatched_at_s[request])

    def ended(self, request: RequestId, now_s: float) -> None:
        """A request left the engine, or never came to it."""
        began_s = self._dispatched_at_s.pop(request, None)
        if began_s is not None:
            self.times.request.add(now_s - began_s)

    def engine_gone(self) -> None:
        """Nothing that was under way is any more; what was learnt stays."""
        self._loads.clear()
        self._dispatched_at_s.clear()

    # --- what is predicted -----------------------------------------------------------------------------

    def until_hot(self, name: EngineName | None, tenant: TenantId, now_s: float) -> Prediction:
        """Predict when a version that a tenant asks for is in its slot, if one is found for it now."""
        if name is None or self._residency.is_hot(name):
            return NOTHING
        total = NOTHING
        for position, (other, tier) in enumerate(self._loads.items()):
            load = self.times.load(tier, self.sizes.get(other, 0))
            total += load.less(now_s - self._load_began_s) if position == 0 else load
            if other == name:
                return total
        if name not in self._residency.state.promises:
            total = total.at_least(self._residency.stall_wait_s(tenant, now_s))
        if self._has_to_drain(name, tenant):
            total += self.times.request.predict()
        return total + self.times.load(self._tier(name), self.sizes.get(name, 0))

    def until_first_token(
        self, name: EngineName | None, tenant: TenantId, num_sequences: int, now_s: float
    ) -> Prediction:
        """Predict a new request's first token."""
        turn = NOTHING
        if not self._queue.has_place(num_sequences, name):
            turn = self.times.turn(num_ahead=self._queue.num_ahead(tenant), places=max(1, self._queue.num_running))
        return self.until_hot(name, tenant, now_s) + turn + self.times.prompt.predict()

    def _has_to_drain(self, name: EngineName, tenant: TenantId) -> bool:
        """Whether the version waits, or would have to wait, until requests have ended in some slot."""
        promised = self._residency.state.promises.get(name)
        room = self._residency.room(tenant) if promised is None else (promised,)
        return not room or room[0].num_running > 0

    def _tier(self, name: EngineName) -> SourceTier:
        return "warm" if name in self._residency.state.warm else "cold"
