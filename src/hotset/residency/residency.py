"""The policy of one worker's slots: dispatch, load, evict under quotas, close.

Rules kept here: a version with a running lease is never unloaded (I3); never more distinct versions dispatched than
slots (I4), so the engine's own eviction has nothing to decide; a tenant at or under its reserve loses no slot and no
file to another (I5); a withdrawn version takes no new dispatch (I11) and its files stay until the engine let go of it
(I12). `residency.decision` says what a request gets, `residency.room` who may take which slot, `residency.demand` when
a version is needed again, `residency.store_evictions` whose files leave the local store, `residency.outcomes` what
follows from the engine's answers; `residency.invariants` re-derives every total.
"""

from collections.abc import Sequence
from typing import assert_never

from hotset.core.errors import ModelNotFoundError
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.residency.accounts import Accounts
from hotset.residency.charges import is_owed, move_charge
from hotset.residency.decision import Decision, decide, stall_wait_s
from hotset.residency.demand import Demand
from hotset.residency.events import (
    Awaited,
    Counted,
    Cut,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Fetched,
    Loaded,
    LoadFailed,
    Lost,
    Permitted,
    Quotas,
    Released,
    Requested,
    TimePassed,
    Unloaded,
)
from hotset.residency.evictions import Evictions
from hotset.residency.ledger import Ledger
from hotset.residency.outcomes import Outcomes
from hotset.residency.reclaim import FINISH, Reclaim
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.residency.room import find_room
from hotset.residency.slots import Lease, Slot, SlotState, State
from hotset.residency.stall import StallBudget
from hotset.residency.steps import close, discard_unused, kept_files, refuse_waiters, unload_if_done
from hotset.residency.store_evictions import StoreEvictions
from hotset.residency.warm import WarmFiles

#: Loads that a tenant may cause in a minute where its quota says nothing of it.
LOADS_PER_MINUTE = 240.0
#: Milliseconds of every second that loads may take from what runs, where nothing is said of it.
STALL_MS_PER_S = 500.0
_NOTHING = EngineName("")
_GIVEN_BACK = (SlotState.HOT, SlotState.CLOSING)


class Residency:
    """Decides for one worker. `decide` only looks; `handle` and `carry_out` change the state."""

    def __init__(
        self,
        *,
        num_slots: int,
        warm_bytes_max: int,
        load_retry_s: float = 5.0,
        loads_per_minute: float = LOADS_PER_MINUTE,
        stall_ms_per_s: float = STALL_MS_PER_S,
        reclaim: Reclaim = FINISH,
        default_quota: Quota = DEFAULT_QUOTA,
        reuse: ReuseModel | None = None,
    ) -> None:
        """Start with empty slots.

        Args:
            num_slots: Usable slots of the engine, at least 1.
            warm_bytes_max: Bytes of version files to keep in the local store; files of versions in slots stay
                whatever they add up to.
            load_retry_s: How long a version whose load failed is refused without another try, so that a
                poisoned one does not keep the engine busy.
            loads_per_minute: Loads that a tenant may cause where its quota says nothing of it.
            stall_ms_per_s: Milliseconds of every second that loads may keep the engine from stepping.
            reclaim: What becomes of requests that run in a slot that its owner needs.
            default_quota: The quota of tenants that have none.
            reuse: Guesses when a version is asked for again; by default from the gaps seen.
        """
        self.state = State([Slot(index) for index in range(num_slots)], WarmFiles(warm_bytes_max))
        self.accounts = Accounts(
            num_slots=num_slots,
            store_bytes=warm_bytes_max,
            loads_per_minute=loads_per_minute,
            default=default_quota,
        )
        self.demand = Demand(reuse or Reuse())
        self._store = StoreEvictions(self.state, self.accounts, self.demand)
        self._evictions = Evictions(self.state, self.accounts)
        self._stall = StallBudget(stall_ms_per_s)
        self._reclaim = reclaim
        self._outcomes = Outcomes(self.state, self._stall, self._store, load_retry_s=load_retry_s)

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Take one event and return the effects to carry out, in order.

        Args:
            event: What happened.
            now_s: Monotonic seconds; orders evictions. Ties break by engine name, so runs replay.
        """
        match event:
            case Requested():
                return self.carry_out(event, self.decide(event, now_s), now_s)
            case Awaited(request, name):
                if not event.is_again:
                    self.demand.asked(name, now_s)
                self.demand.waits(request, name, now_s)
                return []
            case Released(request):
                return self._release(request)
            case Loaded() | LoadFailed() | Unloaded() | Lost() | Counted() | EngineGone():
                return self._outcomes.handle(event, now_s)
            case Permitted(names):
                return self._permit(names)
            case Quotas():
                self._apply(event)
                return []
            case Fetched():
                return self._fetched(event, now_s)
            case TimePassed():
                return [Cut(request) for request in self._reclaim.cut_due(self.state, now_s)]
        assert_never(event)

    # --- what is asked of it ---------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """Who evicted whom from slots."""
        return self._evictions.ledger

    @property
    def store_ledger(self) -> Ledger:
        """The same of files in the local store."""
        return self._store.ledger

    def is_hot(self, name: EngineName) -> bool:
        """Whether the version is in a slot and takes requests."""
        slot = self.state.promises.get(name)
        return slot is not None and slot.state is SlotState.HOT

    def is_loading(self, index: int, name: EngineName) -> bool:
        """Whether a load of the version into that slot was asked for and is not answered."""
        slot = self.state.slots[index]
        return slot.state is SlotState.LOADING and slot.name == name

    def worth(self, slot: Slot, now_s: float) -> float:
        """Return a hot version's worth: the logarithm of its load's seconds over those to its next use."""
        assert slot.name is not None
        return slot.log_load_s - self.demand.log_seconds(slot.name, now_s)

    def room(self, tenant: TenantId) -> Sequence[Slot]:
        """Return the slots of which a tenant's next version would take the least worthy; see `find_room`."""
        return find_room(self.state, self.accounts, tenant)

    def least_worthy(self, slots: Sequence[Slot], now_s: float) -> Slot:
        """Return the slot that is taken of several."""
        if len(slots) == 1:
            return slots[0]
        names = [slot.name or _NOTHING for slot in slots]
        logs = self.demand.log_seconds_of(names, now_s)
        worths = [slot.log_load_s - log_seconds for slot, log_seconds in zip(slots, logs, strict=True)]
        _, _, least = min(zip(worths, names, range(len(slots)), strict=True))
        return slots[least]

    def decide(self, requested: Requested, now_s: float) -> Decision:
        """Return what would be done for a request now; changes nothing."""
        return decide(self.state, self.accounts, self._stall, requested, now_s)

    @property
    def cuts_at_s(self) -> float | None:
        """When a request is to be cut, monotonic seconds: `TimePassed` is due then; None for never."""
        return self._reclaim.due_at_s(self.state) if self.state.num_closing else None

    def stall_wait_s(self, tenant: TenantId, now_s: float) -> float:
        """Return how long the next load for a tenant has to wait, so that what runs is not stalled for too long."""
        return stall_wait_s(self.state, self.accounts, self._stall, tenant, now_s)

    def cut_in_s(self, slot: Slot, tenant: TenantId, now_s: float) -> float | None:
        """Return when what runs in a slot is cut at the latest if a tenant gets it; None where it runs to its end."""
        is_anothers = slot.account != tenant and slot.state in _GIVEN_BACK and slot.successor is None
        is_taken_back = is_anothers and is_owed(self.state, self.accounts, tenant)
        return self._reclaim.left_s(slot, now_s, is_taken_back=is_taken_back)

    # --- requests --------------------------------------------------------------------------------------

    def carry_out(self, requested: Requested, decision: Decision, now_s: float) -> list[Effect]:
        """Do what was decided for a request, with nothing else between; see `handle`."""
        request, name, tenant = requested.request, requested.name, requested.tenant
        assert request not in self.state.leases, f"request {request} asked twice"
        if name is None:
            self.state.leases[request] = Lease(None, None, tenant, running=True)
            return [Dispatch(request)]
        if request in self.demand:
            self.demand.waits_no_more(request)
        elif name in self.state.permitted:
            self.demand.asked(name, now_s)
        if decision.refusal is not None:
            return [decision.refusal]
        slot, effects = decision.slot, list[Effect]()
        if slot is None:
            slot = self.least_worthy(decision.room, now_s)
            self.accounts.charge_load(tenant, now_s)
            effects += self._evictions.promise(slot, name, tenant, now_s)
        if requested.is_forerunner:
            return effects
        is_hot = slot.state is SlotState.HOT
        self.state.leases[request] = Lease(name, slot.index, tenant, running=is_hot)
        slot.take(request, tenant, is_running=is_hot)
        move_charge(self.state, self.accounts, slot)
        if is_hot:
            effects.append(Dispatch(request))
        return effects

    def begins(self, request: RequestId, now_s: float) -> None:
        """A request got its place in the engine: where its slot was cut before, it is cut after as long again."""
        slot = self.state.leases[request].slot
        if slot is not None and self.state.slots[slot].is_cut:
            self.state.slots[slot].closing_since_s, self.state.slots[slot].is_cut = now_s, False

    def _release(self, request: RequestId) -> list[Effect]:
        self.demand.waits_no_more(request)
        lease = self.state.leases.pop(request, None)
        if lease is None or lease.slot is None:
            return []
        slot = self.state.slots[lease.slot]
        slot.drop(request, lease.tenant)
        if slot.state is not SlotState.CLOSING:
            move_charge(self.state, self.accounts, slot)
            return []
        # Where none ever waited the version is brought in for one that comes back.
        if not lease.running and slot.successor is not None and not slot.waiting:
            self._evictions.reopen(slot)
        return unload_if_done(self.state, slot)

    # --- what came before anybody asked ---

    def _fetched(self, fetched: Fetched, now_s: float) -> list[Effect]:
        if fetched.name not in self.state.permitted and fetched.name not in kept_files(self.state):
            return [Discard(fetched.name)]
        self._store.take_in(fetched.name, fetched.warm_bytes, fetched.account)
        return [*self._store.make_room(fetched.account, now_s)]

    # --- what may be served ----------------------------------------------------------------------------

    def _apply(self, quotas: Quotas) -> None:
        self.accounts.apply(quotas.by_tenant)
        if quotas.tenants is not None:
            self.ledger.keep(quotas.tenants)
            self.store_ledger.keep(quotas.tenants)

    def _permit(self, names: frozenset[EngineName]) -> list[Effect]:
        state = self.state
        state.permitted = names
        self.demand.forget(names)
        failed = state.load_failed_until_s
        state.load_failed_until_s = {name: until_s for name, until_s in failed.items() if name in names}
        effects: list[Effect] = []
        for slot in state.slots:
            promised = slot.promised()
            if promised is not None and promised not in names:
                effects += refuse_waiters(state, slot, ModelNotFoundError.code, "")
                state.move(slot, slot.state, slot.name)
            if slot.state is SlotState.HOT and slot.name not in names:
                effects += close(state, slot, "withdrawn")
            elif slot.state is SlotState.CLOSING and slot.successor is None:
                self._evictions.reopen(slot)
        return [*effects, *discard_unused(state, [name for name in state.warm if name not in names])]
