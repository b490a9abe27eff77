"""The policy of one worker's slots: dispatch, load, evict under quotas, close, resolve the unknown.

Rules kept here: a version with a running lease is never unloaded (I3); never more distinct versions dispatched than
slots (I4), so the engine's own eviction has nothing to decide; a tenant at or under its reserve loses no slot to
another (I5); a withdrawn version takes no new dispatch (I11) and its files stay until the engine let go of it (I12).
`residency.room` says who may take which slot, `residency.reuse` what a place is worth; `residency.invariants`
re-derives every total.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from hotset.core.errors import (
    EngineUnavailableError,
    LoadFailedError,
    LoadRateExceededError,
    ModelNotFoundError,
    SlotsFullError,
)
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.residency.accounts import Accounts
from hotset.residency.events import (
    Cause,
    Count,
    Counted,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadFailed,
    Lost,
    Permitted,
    Quotas,
    Refuse,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.residency.room import find_room, lent_out, num_held, num_kept, num_used_up
from hotset.residency.slots import Lease, Slot, SlotState, State
from hotset.residency.warm import WarmFiles

Effects = list[Effect]
#: Loads that a tenant may cause in a minute where its quota says nothing of it.
LOADS_PER_MINUTE = 240.0
#: Taken for a load's seconds before one was measured, and the least that one counts.
_LOAD_MIN_S = 0.001
_MAKES_ROOM = "The adapter makes room for another; try again shortly."
_AT_LIMIT = "Your adapters hold every slot that you may take; all of them are in use."


class Residency:
    """Decides for one worker. One call, `handle`, changes the state; it returns what is to be done."""

    def __init__(
        self,
        *,
        num_slots: int,
        warm_bytes_max: int,
        load_retry_s: float = 5.0,
        loads_per_minute: float = LOADS_PER_MINUTE,
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
            default_quota: The quota of tenants that have none.
            reuse: Guesses when a version is asked for again; by default from the gaps seen.
        """
        self.state = State([Slot(index) for index in range(num_slots)], WarmFiles(warm_bytes_max))
        self.accounts = Accounts(num_slots=num_slots, loads_per_minute=loads_per_minute, default=default_quota)
        #: Evictions by (who caused it, who suffered it, why).
        self.ledger: Counter[tuple[TenantId, TenantId, Cause]] = Counter()
        self._reuse = reuse or Reuse()
        self._load_retry_s = load_retry_s

    def handle(self, event: Event, now_s: float) -> Effects:
        """Take one event and return the effects to carry out, in order.

        Args:
            event: What happened.
            now_s: Monotonic seconds; orders evictions. Ties break by engine name, so runs replay.
        """
        match event:
            case Requested():
                return self._request(event, now_s)
            case Released(request):
                return self._release(request)
            case Loaded() | LoadFailed() | Unloaded() | Lost():
                return self._answered(self.state.slots[event.slot], event, now_s)
            case Counted(loaded):
                return self._counted(loaded, now_s)
            case EngineGone():
                return self._engine_gone()
            case Permitted(names):
                return self._permit(names)
            case Quotas(by_tenant):
                self.accounts.apply(by_tenant)
                return []
        assert_never(event)

    def is_hot(self, name: EngineName) -> bool:
        """Whether the version is in a slot and takes requests."""
        return any(slot.state is SlotState.HOT and slot.name == name for slot in self.state.slots)

    def is_loading(self, index: int, name: EngineName) -> bool:
        """Whether a load of the version into that slot was asked for and is not answered."""
        slot = self.state.slots[index]
        return slot.state is SlotState.LOADING and slot.name == name

    def worth(self, slot: Slot, now_s: float) -> float:
        """Return a hot version's worth: the logarithm of its load's seconds over those to its next use."""
        assert slot.name is not None
        return math.log(max(_LOAD_MIN_S, slot.load_s)) - self._reuse.log_seconds(slot.name, now_s)

    def is_owed(self, tenant: TenantId) -> bool:
        """Whether a tenant has fewer slots than its reserve."""
        return num_used_up(self.state.slots, tenant) < self.accounts.share(tenant).reserve

    def room_for(self, tenant: TenantId, now_s: float, *, is_impatient: bool = False) -> Slot | None:
        """Return the slot that a tenant's next version would take now; changes nothing."""

        def worth(slot: Slot) -> float:
            return self.worth(slot, now_s)

        return find_room(self.state.slots, self.accounts, tenant, worth, is_impatient=is_impatient)

    def must_wait(self, requested: Requested, now_s: float) -> bool:
        """Whether a request would be refused for want of a slot alone; changes nothing."""
        name = requested.name
        if name is None or name not in self.state.permitted or self._slot_promised_to(name) is not None:
            return False
        if self.state.load_failed_until_s.get(name, now_s) > now_s:
            return False
        if self.is_leaving(name):
            return True
        if self.accounts.seconds_to_next_load(requested.tenant, now_s) > 0:
            return False
        return self.room_for(requested.tenant, now_s, is_impatient=requested.is_impatient) is None

    def is_leaving(self, name: EngineName) -> bool:
        """Whether the version is on its way out of a slot: the engine can't hold it twice, it has to be out first."""
        leaving = (SlotState.CLOSING, SlotState.UNKNOWN)
        return any(slot.name == name and slot.state in leaving for slot in self.state.slots)

    # --- requests --------------------------------------------------------------------------------------

    def _request(self, requested: Requested, now_s: float) -> Effects:
        request, name, tenant = requested.request, requested.name, requested.tenant
        assert request not in self.state.leases, f"request {request} asked twice"
        if name is None:
            self.state.leases[request] = Lease(None, None, tenant, running=True)
            return [Dispatch(request)]
        if name not in self.state.permitted:
            return [Refuse(request, ModelNotFoundError.code, "")]
        if self.state.load_failed_until_s.get(name, now_s) > now_s:
            return [Refuse(request, LoadFailedError.code, "")]
        self._reuse.asked(name, now_s)
        effects: Effects = []
        slot = self._slot_promised_to(name)
        if slot is None:
            slot = self._make_room(requested, name, now_s, effects)
            if slot is None:
                return effects
        if requested.is_forerunner:
            return effects
        hot = slot.state is SlotState.HOT
        self.state.leases[request] = Lease(name, slot.index, tenant, running=hot)
        slot.take(tenant, is_running=hot)
        self._move_charge(slot)
        if hot:
            effects.append(Dispatch(request))
        return effects

    def _make_room(self, requested: Requested, name: EngineName, now_s: float, effects: Effects) -> Slot | None:
        """Promise a slot to the version, or say in the effects why there is none."""
        request, tenant = requested.request, requested.tenant
        wait_s = self.accounts.seconds_to_next_load(tenant, now_s)
        if wait_s > 0:
            effects.append(Refuse(request, LoadRateExceededError.code, "", math.ceil(wait_s * 1000)))
            return None
        if self.is_leaving(name):
            effects.append(Refuse(request, SlotsFullError.code, _MAKES_ROOM))
            return None
        slot = self.room_for(tenant, now_s, is_impatient=requested.is_impatient)
        if slot is None:
            is_at_limit = num_used_up(self.state.slots, tenant) >= self.accounts.share(tenant).limit
            effects.append(Refuse(request, SlotsFullError.code, _AT_LIMIT if is_at_limit else ""))
            return None
        self.accounts.charge_load(tenant, now_s)
        self._promise(slot, name, tenant, effects)
        return slot

    def _promise(self, slot: Slot, name: EngineName, tenant: TenantId, effects: Effects) -> None:
        """Give the slot to the version: at once where it is empty, else once what is in it has left."""
        had = slot.account
        if slot.state is SlotState.CLOSING:
            slot.victim = had
        if slot.state is SlotState.HOT:
            self._evict(slot, tenant, effects)
        slot.account = tenant
        if had != tenant:
            self._hand_over(tenant)
        if slot.state is SlotState.EMPTY:
            self._start_load(slot, name, effects)
        else:
            slot.successor = name

    def _evict(self, slot: Slot, tenant: TenantId, effects: Effects) -> None:
        """Let a hot version go for another tenant's or another version of the same one."""
        victim = slot.account
        assert victim is not None, f"slot {slot.index} is hot and nobody's"
        held = num_kept(self.state.slots)[victim]
        share = self.accounts.share(victim)
        cause: Cause = "own"
        if victim != tenant:
            assert held > share.reserve, f"I5: {victim} holds {held} of {share.reserve} owed"
            cause = "reserve" if self.is_owed(tenant) else "borrow"
        self.ledger[tenant, victim, cause] += 1
        slot.leaving, slot.victim = cause, victim
        slot.state = SlotState.CLOSING
        self._unload_if_done(slot, effects)

    def _release(self, request: RequestId) -> Effects:
        lease = self.state.leases.pop(request, None)
        if lease is None or lease.slot is None:
            return []
        slot = self.state.slots[lease.slot]
        slot.drop(lease.tenant, is_running=lease.running)
        effects: Effects = []
        if slot.state is SlotState.CLOSING:
            # Where none ever waited the version is brought in for one that comes back.
            if not lease.running and slot.successor is not None and slot.num_leases == slot.num_running:
                self._reopen(slot)
            self._unload_if_done(slot, effects)
        else:
            self._move_charge(slot)
        return effects

    def _reopen(self, slot: Slot) -> None:
        """Nobody waits for a slot that was to be given away: it is whose it was, and what still runs there keeps it."""
        if slot.victim is not None:
            assert slot.account is not None, f"slot {slot.index} was promised to nobody"
            if slot.leaving != "withdrawn":
                told: tuple[TenantId, TenantId, Cause] = (slot.account, slot.victim, slot.leaving)
                self.ledger -= Counter([told])
            slot.account, slot.victim = slot.victim, None
        slot.successor, slot.leaving = None, "withdrawn"
        if slot.num_running and slot.name in self.state.permitted:
            slot.state = SlotState.HOT
            self._move_charge(slot)

    def _move_charge(self, slot: Slot) -> None:
        """Charge a slot to one that uses it where the one charged does so no more and has more than it is owed."""
        account = slot.account
        if account is None or slot not in lent_out(self.state.slots, account):
            return
        held = num_held(self.state.slots)
        if num_kept(self.state.slots)[account] > self.accounts.share(account).reserve:
            heirs = (user for user in slot.users if held[user] < self.accounts.share(user).limit)
            slot.account = next(heirs, account)

    def _hand_over(self, tenant: TenantId) -> None:
        """Charge one that uses a tenant's slot for it, now that the tenant has another: at its limit, too."""
        held = num_held(self.state.slots)
        lent = lent_out(self.state.slots, tenant)
        if lent and held[tenant] > self.accounts.share(tenant).reserve:
            users = lent[0].users
            lent[0].account = min(users, key=lambda user: held[user] >= self.accounts.share(user).limit)

    # --- outcomes of effects ---------------------------------------------------------------------------

    def _answered(self, slot: Slot, event: Loaded | LoadFailed | Unloaded | Lost, now_s: float) -> Effects:
        match event:
            case Loaded():
                return self._loaded(slot, event, now_s)
            case LoadFailed(_, name, code, message):
                return self._load_failed(slot, name, code, message, now_s)
            case Unloaded(_, name):
                return self._unloaded(slot, name)
            case Lost(_, name, warm_bytes):
                return self._lost(slot, name, warm_bytes)

    def _loaded(self, slot: Slot, event: Loaded, now_s: float) -> Effects:
        name = event.name
        if slot.state is not SlotState.LOADING or slot.name != name:
            return []
        self.state.warm.add(name, event.warm_bytes)
        self.state.load_failed_until_s.pop(name, None)
        slot.state, slot.hot_since_s = SlotState.HOT, now_s
        slot.load_s, slot.slot_bytes = event.load_s, event.slot_bytes
        effects: Effects = []
        if name not in self.state.permitted:  # withdrawn meanwhile; its waiters were refused then
            self._withdraw(slot, effects)
            return effects
        return [*self._dispatch_waiters(slot), *self._discard(self.state.warm.excess(self._in_use()))]

    def _load_failed(self, slot: Slot, name: EngineName, code: str, message: str, now_s: float) -> Effects:
        if slot.state is not SlotState.LOADING or slot.name != name:
            return []
        self.state.load_failed_until_s[name] = now_s + self._load_retry_s
        refusals = self._refuse_waiters(slot, code, message)
        self._empty(slot)
        self.state.warm.remove(name)
        # Whatever the failure left: files that did not check, or a load the engine finished after all.
        return [*refusals, Discard(name), Count()]

    def _unloaded(self, slot: Slot, name: EngineName) -> Effects:
        if slot.state is not SlotState.UNLOADING or slot.name != name:
            return []
        effects: Effects = []
        successor, account = slot.successor, slot.account
        self._empty(slot)
        if name not in self.state.permitted:
            effects.extend(self._discard([name]))
        if successor is not None:
            slot.account = account
            self._start_load(slot, successor, effects)
        return effects

    def _lost(self, slot: Slot, name: EngineName, warm_bytes: int) -> Effects:
        if slot.name != name or slot.state not in (SlotState.LOADING, SlotState.UNLOADING):
            return []
        if slot.state is SlotState.LOADING:
            slot.successor = name
            self.state.warm.add(name, warm_bytes)
        slot.state = SlotState.UNKNOWN
        return [Count()]

    def _counted(self, loaded: frozenset[EngineName], now_s: float) -> Effects:
        effects: Effects = []
        for slot in self.state.slots:
            if slot.state is SlotState.UNKNOWN:
                effects.extend(self._resolve(slot, loaded, now_s))
        known = {slot.name for slot in self.state.slots}
        for orphan in sorted(loaded - known):  # a load that was given up on and came in late
            slot = next((slot for slot in self.state.slots if slot.state is SlotState.EMPTY), None)
            if slot is not None:
                slot.name, slot.leaving = orphan, "orphan"
                self._start_unload(slot, effects)
        return effects

    def _resolve(self, slot: Slot, loaded: frozenset[EngineName], now_s: float) -> Effects:
        """End an unknown state by what the engine says it holds."""
        assert slot.name is not None
        name, successor, account = slot.name, slot.successor, slot.account
        effects: Effects = []
        # Asked for again meanwhile and promised another slot: what the engine holds is that one's.
        is_elsewhere = any(other.promised() == name for other in self.state.slots if other is not slot)
        if name in loaded and successor == name:
            slot.state, slot.successor, slot.hot_since_s = SlotState.HOT, None, now_s
            effects.extend(self._dispatch_waiters(slot))
        elif name in loaded and not is_elsewhere:
            self._start_unload(slot, effects)
        elif successor == name or successor is None:
            effects.extend(self._refuse_waiters(slot, LoadFailedError.code, "the load was lost"))
            self._empty(slot)
        else:
            self._empty(slot)
            slot.account = account
            self._start_load(slot, successor, effects)
        return effects

    def _engine_gone(self) -> Effects:
        effects: Effects = []
        for slot in self.state.slots:
            effects.extend(self._refuse_waiters(slot, EngineUnavailableError.code, ""))
            self._empty(slot)
            slot.users.clear()
            slot.num_leases = slot.num_running = 0
        for lease in self.state.leases.values():
            lease.slot = None  # their streams end by themselves
        return effects

    # --- what may be served ----------------------------------------------------------------------------

    def _permit(self, names: frozenset[EngineName]) -> Effects:
        self.state.permitted = names
        self._reuse.forget(names)
        failed = self.state.load_failed_until_s
        self.state.load_failed_until_s = {name: until_s for name, until_s in failed.items() if name in names}
        effects: Effects = []
        for slot in self.state.slots:
            promised = slot.promised()
            if promised is not None and promised not in names:
                effects.extend(self._refuse_waiters(slot, ModelNotFoundError.code, ""))
                slot.successor = None
            if slot.state is SlotState.HOT and slot.name not in names:
                self._withdraw(slot, effects)
            elif slot.state is SlotState.CLOSING and slot.successor is None:
                self._reopen(slot)
        effects.extend(self._discard([name for name in self.state.warm if name not in names]))
        return effects

    def _withdraw(self, slot: Slot, effects: Effects) -> None:
        slot.state, slot.leaving = SlotState.CLOSING, "withdrawn"
        self._unload_if_done(slot, effects)

    # --- small steps -----------------------------------------------------------------------------------

    def _slot_promised_to(self, name: EngineName) -> Slot | None:
        return next((slot for slot in self.state.slots if slot.promised() == name), None)

    def _start_load(self, slot: Slot, name: EngineName, effects: Effects) -> None:
        slot.state, slot.name, slot.successor = SlotState.LOADING, name, None
        effects.append(Load(slot.index, name))

    def _unload_if_done(self, slot: Slot, effects: Effects) -> None:
        if slot.state is SlotState.CLOSING and slot.num_running == 0:
            self._start_unload(slot, effects)

    def _start_unload(self, slot: Slot, effects: Effects) -> None:
        assert slot.name is not None
        running = [r for r, lease in self.state.leases.items() if lease.running and lease.slot == slot.index]
        assert not running, f"I3: unload of {slot.name} while {running} run"
        slot.state, slot.victim = SlotState.UNLOADING, None
        effects.append(Unload(slot.index, slot.name, slot.leaving))

    def _empty(self, slot: Slot) -> None:
        slot.state, slot.name, slot.successor, slot.account = SlotState.EMPTY, None, None, None
        slot.leaving, slot.victim, slot.load_s, slot.slot_bytes = "withdrawn", None, 0.0, 0

    def _in_use(self) -> set[EngineName | None]:
        """Versions in slots or promised one: their files stay."""
        return {slot.name for slot in self.state.slots} | {slot.successor for slot in self.state.slots}

    def _discard(self, names: Iterable[EngineName]) -> Effects:
        """Give up the files of those versions that nothing uses."""
        in_use = self._in_use()
        return [Discard(name) for name in names if name not in in_use and self.state.warm.remove(name)]

    def _waiters(self, slot: Slot) -> list[RequestId]:
        return [
            request for request, lease in self.state.leases.items() if lease.slot == slot.index and not lease.running
        ]

    def _dispatch_waiters(self, slot: Slot) -> Effects:
        waiters = self._waiters(slot)
        for request in waiters:
            self.state.leases[request].running = True
        slot.num_running += len(waiters)
        return [Dispatch(request) for request in waiters]

    def _refuse_waiters(self, slot: Slot, code: str, message: str) -> Effects:
        waiters = self._waiters(slot)
        for request in waiters:
            slot.drop(self.state.leases.pop(request).tenant, is_running=False)
        return [Refuse(request, code, message) for request in waiters]
