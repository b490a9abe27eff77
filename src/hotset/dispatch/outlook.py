"""When a request's first token will come on this worker, from what residency and the fair queue hold and have shown.

Loads are carried out one at a time, so a load waits for those asked for before it, and for the worker's stall budget.
Where no slot is free, versions take turns in those that are given up at all, each for a load and a request; so do
tenants, and what one of them wants comes after all that it wanted before, and after as much of each other tenant.
"""

from collections import Counter
from collections.abc import Mapping

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import NOTHING, FirstTokenTimes, Prediction, SourceTier
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.wanting import Wanting
from hotset.residency.charges import num_used_up
from hotset.residency.residency import Residency

#: Learnt while few waited, times say little of a crowd; so many times as long is nearly always enough.
_CROWDED = 1.5
#: For so long after its time a client that was told to come back is counted on.
_LATE_S = 2.0
#: So much before it, it comes as it was told to: clocks and networks are what they are.
_EARLY_S = 0.05


class Outlook:
    """Watches one worker's loads and requests, and predicts."""

    def __init__(self, residency: Residency, queue: FairQueue, wanting: Wanting) -> None:
        self.times = FirstTokenTimes()
        self._residency = residency
        self._queue = queue
        self._wanting = wanting
        #: Versions that somebody was told to come back for: whose client it was, and until when it is counted on.
        self._told: dict[EngineName, tuple[TenantId, float]] = {}
        #: Bytes of each version that may be served.
        self.sizes: dict[EngineName, int] = {}
        #: Loads asked for and not answered, in order, with where each comes from.
        self._loads: dict[EngineName, SourceTier] = {}
        #: Since when the first of them is under way.
        self._load_began_s = 0.0
        #: When the last load ended, and how many have since somebody is left without a slot.
        self._turned_at_s = 0.0
        self._num_turns = 0
        #: Since when each dispatched request is in the engine.
        self._dispatched_at_s: dict[RequestId, float] = {}

    # --- what is watched -------------------------------------------------------------------------------

    def load_asked(self, name: EngineName, now_s: float) -> None:
        """A load was asked for."""
        if not self._loads:
            self._load_began_s = now_s
        self._loads[name] = self._tier(name)

    @property
    def is_loading(self) -> bool:
        """Whether a load was asked for and not answered."""
        return bool(self._loads)

    def load_ended(self, name: EngineName, load_s: float | None, now_s: float) -> None:
        """A load ended: well, in so many seconds, or not (None)."""
        tier = self._loads.pop(name, None)
        self._load_began_s = now_s
        if tier is None or load_s is None:
            return
        self.times.loaded(tier, self.sizes.get(name, 0), load_s)
        # The first ones may have found their slots empty: that is no turn.
        if self._num_turns >= len(self._residency.state.slots):
            self.times.turn_of_slots.add(now_s - self._turned_at_s)
        self._turned_at_s = now_s
        self._num_turns = self._num_turns + 1 if len(self._wanting) else 0

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

    def told(self, name: EngineName, tenant: TenantId, wait_s: float, now_s: float) -> None:
        """A tenant's client was told to come back for a version after so long."""
        self._told = {other: told for other, told in self._told.items() if told[1] > now_s}
        self._told[name] = tenant, now_s + wait_s + _LATE_S

    def came_back(self, name: EngineName, tenant: TenantId, now_s: float) -> bool:
        """Somebody asks for a version, so nobody is counted on for it; return whether it comes as it was told to."""
        teller, until_s = self._told.pop(name, (tenant, 0.0))
        return teller == tenant and until_s - _LATE_S - _EARLY_S <= now_s < until_s

    def engine_gone(self) -> None:
        """Nothing that was under way is any more; what was learnt stays."""
        self._loads.clear()
        self._dispatched_at_s.clear()

    # --- what is predicted -----------------------------------------------------------------------------

    def until_hot(self, name: EngineName | None, tenant: TenantId, now_s: float) -> Prediction:
        """Predict when a version that a tenant asks for now is in its slot."""
        return self._until_hot(name, tenant, self._wanting.num_versions(), now_s)

    def until_return(self, name: EngineName | None, tenant: TenantId, now_s: float) -> Prediction:
        """Predict the same for a client that is sent away: after all those that were sent away before it."""
        told = Counter(other for other, until_s in self._told.values() if until_s > now_s)
        return self._until_hot(name, tenant, told + Counter(self._wanting.num_versions()), now_s)

    def _until_hot(
        self, name: EngineName | None, tenant: TenantId, wanted: Mapping[TenantId, int], now_s: float
    ) -> Prediction:
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
        load = self.times.load(self._tier(name), self.sizes.get(name, 0))
        drain = self._until_drained(name, tenant, now_s)
        if drain is None:
            return total + load
        visit = self.times.request.predict() + load
        turns = self._turn(visit, load, tenant).times(self._num_ahead(name, tenant, wanted))
        return total + drain + load + Prediction(turns.expected_s, _CROWDED * turns.safe_s)

    def _turn(self, visit: Prediction, load: Prediction, tenant: TenantId) -> Prediction:
        """Predict the time from one version's load to the next one's where many wait: as measured, else as reckoned."""
        if self.times.turn_of_slots.is_known:
            return self.times.turn_of_slots.predict()
        share = visit.times(1 / self._num_given_up(tenant))
        return Prediction(max(share.expected_s, load.expected_s), max(share.safe_s, load.safe_s))

    def until_first_token(
        self, name: EngineName | None, tenant: TenantId, num_sequences: int, now_s: float
    ) -> Prediction:
        """Predict a new request's first token."""
        turn = NOTHING
        if not self._queue.has_place(num_sequences, name):
            turn = self.times.turn(num_ahead=self._queue.num_ahead(tenant), places=max(1, self._queue.num_running))
        return self.until_hot(name, tenant, now_s) + turn + self.times.prompt.predict()

    def _until_drained(self, name: EngineName, tenant: TenantId, now_s: float) -> Prediction | None:
        """Predict when requests have ended in the slot that a version waits for; None where it need not wait.

        What runs in a slot that its owner takes back may be cut before it ends by itself.
        """
        promised = self._residency.state.promises.get(name)
        room = self._residency.room(tenant) if promised is None else (promised,)
        if not room:
            return self.times.request.predict()
        if not room[0].num_running:
            return None
        cut_in_s = self._residency.cut_in_s(room[0], tenant, now_s)
        request = self.times.request.predict()
        return request if cut_in_s is None else request.at_most(cut_in_s)

    def _num_given_up(self, tenant: TenantId) -> int:
        """Return how many slots go round: all but those that others hold within their reserves."""
        held, accounts = self._residency.state.held, self._residency.accounts
        others = (other for other in accounts.reserving() if other != tenant)
        kept = sum(min(held.get(other, 0), accounts.share(other).reserve) for other in others)
        return max(1, len(self._residency.state.slots) - kept)

    def _num_ahead(self, name: EngineName, tenant: TenantId, wanted: Mapping[TenantId, int]) -> int:
        """Return how many versions go into slots before a tenant's."""
        own = self._wanting.versions(tenant)
        num_own = own.index(name) if name in own else wanted.get(tenant, 0)
        if num_used_up(self._residency.state, tenant) < self._residency.accounts.share(tenant).reserve:
            return num_own
        return num_own + sum(min(count, num_own + 1) for other, count in wanted.items() if other != tenant)

    def _tier(self, name: EngineName) -> SourceTier:
        return "warm" if name in self._residency.state.warm else "cold"
