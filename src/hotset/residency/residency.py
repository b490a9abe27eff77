"""The policy of one worker's slots: dispatch, load, evict the least recently used, close, resolve the unknown.

Rules kept here: a version with a running lease is never unloaded (I3); never more distinct versions dispatched than
slots (I4), so the engine's own eviction has nothing to decide; a withdrawn version takes no new dispatch (I11) and its
files stay until the engine let go of it (I12). `residency.invariants` re-derives every total.
"""

from collections.abc import Iterable
from typing import assert_never

from hotset.core.errors import EngineUnavailableError, LoadFailedError, ModelNotFoundError, SlotsFullError
from hotset.core.ids import EngineName, RequestId
from hotset.residency.events import (
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
    Refuse,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.slots import Lease, Slot, SlotState, State, WarmFile

Effects = list[Effect]


class Residency:
    """Decides for one worker. One call, `handle`, changes the state; it returns what is to be done."""

    def __init__(self, *, num_slots: int, warm_bytes_max: int, load_retry_s: float = 5.0) -> None:
        """Start with empty slots.

        Args:
            num_slots: Usable slots of the engine, at least 1.
            warm_bytes_max: Bytes of version files to keep in the local store; files of versions in slots stay
                whatever they add up to.
            load_retry_s: How long a version whose load failed is refused without another try, so that a
                poisoned one does not keep the engine busy.
        """
        self.state = State([Slot(index) for index in range(num_slots)])
        self._warm_bytes_max = warm_bytes_max
        self._load_retry_s = load_retry_s

    def handle(self, event: Event, now_s: float) -> Effects:
        """Take one event and return the effects to carry out, in order.

        Args:
            event: What happened.
            now_s: Monotonic seconds; orders evictions. Ties break by engine name, so runs replay.
        """
        match event:
            case Requested(request, name):
                return self._request(request, name, now_s)
            case Released(request):
                return self._release(request, now_s)
            case Loaded(index, name, warm_bytes):
                return self._loaded(self.state.slots[index], name, warm_bytes, now_s)
            case LoadFailed(index, name, code, message):
                return self._load_failed(self.state.slots[index], name, code, message, now_s)
            case Unloaded(index, name):
                return self._unloaded(self.state.slots[index], name)
            case Lost(index, name, warm_bytes):
                return self._lost(self.state.slots[index], name, warm_bytes, now_s)
            case Counted(loaded):
                return self._counted(loaded, now_s)
            case EngineGone():
                return self._engine_gone()
            case Permitted(names):
                return self._permit(names)
        assert_never(event)

    def is_hot(self, name: EngineName) -> bool:
        """Whether the version is in a slot and takes requests."""
        return any(slot.state is SlotState.HOT and slot.name == name for slot in self.state.slots)

    # --- requests --------------------------------------------------------------------------------------

    def _request(self, request: RequestId, name: EngineName | None, now_s: float) -> Effects:
        assert request not in self.state.leases, f"request {request} asked twice"
        if name is None:
            self.state.leases[request] = Lease(None, None, running=True)
            return [Dispatch(request)]
        if name not in self.state.permitted:
            return [Refuse(request, ModelNotFoundError.code, "")]
        if self.state.load_failed_until_s.get(name, now_s) > now_s:
            return [Refuse(request, LoadFailedError.code, "")]
        effects: Effects = []
        slot = self._slot_promised_to(name)
        if slot is None:
            slot = self._make_room(name, effects)
            if slot is None:
                return [Refuse(request, SlotsFullError.code, "")]
        hot = slot.state is SlotState.HOT
        self.state.leases[request] = Lease(name, slot.index, running=hot)
        slot.num_leases += 1
        slot.used_at_s = now_s
        if hot:
            effects.append(Dispatch(request))
        return effects

    def _make_room(self, name: EngineName, effects: Effects) -> Slot | None:
        """Promise a slot to the version: an empty one, one that is emptying anyway, or the least recently used."""
        for slot in self.state.slots:
            if slot.state is SlotState.EMPTY:
                self._start_load(slot, name, effects)
                return slot
        for slot in self.state.slots:
            if slot.state is SlotState.UNLOADING and slot.successor is None:
                slot.successor = name
                return slot
        idle = [slot for slot in self.state.slots if slot.state is SlotState.HOT and slot.num_leases == 0]
        if not idle:
            return None
        victim = min(idle, key=lambda slot: (slot.used_at_s, slot.name or ""))
        self._start_unload(victim, effects)
        victim.successor = name
        return victim

    def _release(self, request: RequestId, now_s: float) -> Effects:
        lease = self.state.leases.pop(request, None)
        if lease is None or lease.slot is None:
            return []
        slot = self.state.slots[lease.slot]
        slot.num_leases -= 1
        slot.used_at_s = now_s
        effects: Effects = []
        if slot.state is SlotState.CLOSING and slot.num_leases == 0:
            self._start_unload(slot, effects)
        return effects

    # --- outcomes of effects ---------------------------------------------------------------------------

    def _loaded(self, slot: Slot, name: EngineName, warm_bytes: int, now_s: float) -> Effects:
        if slot.state is not SlotState.LOADING or slot.name != name:
            return []
        self.state.warm[name] = WarmFile(warm_bytes, now_s)
        self.state.load_failed_until_s.pop(name, None)
        slot.state = SlotState.HOT
        if name not in self.state.permitted:  # withdrawn meanwhile; its waiters were refused then
            effects: Effects = []
            self._start_unload(slot, effects)
            return effects
        return [*self._dispatch_waiters(slot), *self._trim_warm()]

    def _load_failed(self, slot: Slot, name: EngineName, code: str, message: str, now_s: float) -> Effects:
        if slot.state is not SlotState.LOADING or slot.name != name:
            return []
        self.state.load_failed_until_s[name] = now_s + self._load_retry_s
        refusals = self._refuse_waiters(slot, code, message)
        self._empty(slot)
        self.state.warm.pop(name, None)
        # Whatever the failure left: files that did not check, or a load the engine finished after all.
        return [*refusals, Discard(name), Count()]

    def _unloaded(self, slot: Slot, name: EngineName) -> Effects:
        if slot.state is not SlotState.UNLOADING or slot.name != name:
            return []
        effects: Effects = []
        successor = slot.successor
        self._empty(slot)
        if name not in self.state.permitted:
            effects.extend(self._discard([name]))
        if successor is not None:
            self._start_load(slot, successor, effects)
        return effects

    def _lost(self, slot: Slot, name: EngineName, warm_bytes: int, now_s: float) -> Effects:
        if slot.name != name or slot.state not in (SlotState.LOADING, SlotState.UNLOADING):
            return []
        if slot.state is SlotState.LOADING:
            slot.successor = name
            self.state.warm[name] = WarmFile(warm_bytes, now_s)
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
                slot.name = orphan
                self._start_unload(slot, effects)
        return effects

    def _resolve(self, slot: Slot, loaded: frozenset[EngineName], now_s: float) -> Effects:
        """End an unknown state by what the engine says it holds."""
        assert slot.name is not None
        name, successor = slot.name, slot.successor
        effects: Effects = []
        if name in loaded and successor == name:
            slot.state, slot.successor, slot.used_at_s = SlotState.HOT, None, now_s
            effects.extend(self._dispatch_waiters(slot))
        elif name in loaded:
            self._start_unload(slot, effects)
            slot.successor = successor
        elif successor == name or successor is None:
            effects.extend(self._refuse_waiters(slot, LoadFailedError.code, "the load was lost"))
            self._empty(slot)
        else:
            num_leases = slot.num_leases
            self._empty(slot)
            slot.num_leases = num_leases
            self._start_load(slot, successor, effects)
        return effects

    def _engine_gone(self) -> Effects:
        effects: Effects = []
        for slot in self.state.slots:
            effects.extend(self._refuse_waiters(slot, EngineUnavailableError.code, ""))
            self._empty(slot)
            slot.num_leases = 0
        for lease in self.state.leases.values():
            lease.slot = None  # their streams end by themselves
        return effects

    # --- what may be served ----------------------------------------------------------------------------

    def _permit(self, names: frozenset[EngineName]) -> Effects:
        self.state.permitted = names
        failed = self.state.load_failed_until_s
        self.state.load_failed_until_s = {name: until_s for name, until_s in failed.items() if name in names}
        effects: Effects = []
        for slot in self.state.slots:
            promised = slot.promised()
            if promised is not None and promised not in names:
                effects.extend(self._refuse_waiters(slot, ModelNotFoundError.code, ""))
                slot.successor = None
            if slot.state is SlotState.HOT and slot.name not in names:
                slot.state = SlotState.CLOSING
            elif slot.state is SlotState.CLOSING and slot.name in names and self._slot_promised_to(slot.name) is None:
                slot.state = SlotState.HOT
            if slot.state is SlotState.CLOSING and slot.num_leases == 0:
                self._start_unload(slot, effects)
        effects.extend(self._discard([name for name in self.state.warm if name not in names]))
        return effects

    # --- small steps -----------------------------------------------------------------------------------

    def _slot_promised_to(self, name: EngineName | None) -> Slot | None:
        return next((slot for slot in self.state.slots if name is not None and slot.promised() == name), None)

    def _start_load(self, slot: Slot, name: EngineName, effects: Effects) -> None:
        slot.state, slot.name, slot.successor = SlotState.LOADING, name, None
        effects.append(Load(slot.index, name))

    def _start_unload(self, slot: Slot, effects: Effects) -> None:
        assert slot.name is not None
        running = [r for r, lease in self.state.leases.items() if lease.running and lease.slot == slot.index]
        assert not running, f"I3: unload of {slot.name} while {running} run"
        slot.state = SlotState.UNLOADING
        effects.append(Unload(slot.index, slot.name))

    def _empty(self, slot: Slot) -> None:
        slot.state, slot.name, slot.successor = SlotState.EMPTY, None, None

    def _waiters(self, slot: Slot) -> list[RequestId]:
        return [
            request for request, lease in self.state.leases.items() if lease.slot == slot.index and not lease.running
        ]

    def _dispatch_waiters(self, slot: Slot) -> Effects:
        waiters = self._waiters(slot)
        for request in waiters:
            self.state.leases[request].running = True
        return [Dispatch(request) for request in waiters]

    def _refuse_waiters(self, slot: Slot, code: str, message: str) -> Effects:
        waiters = self._waiters(slot)
        for request in waiters:
            del self.state.leases[request]
        slot.num_leases -= len(waiters)
        return [Refuse(request, code, message) for request in waiters]

    def _discard(self, names: Iterable[EngineName]) -> Effects:
        """Give up the files of versions that are in no slot and promised none."""
        kept = {slot.name for slot in self.state.slots} | {slot.successor for slot in self.state.slots}
        effects: Effects = []
        for name in names:
            if name not in kept and self.state.warm.pop(name, None) is not None:
                effects.append(Discard(name))
        return effects

    def _trim_warm(self) -> Effects:
        """Discard the files used longest ago until the rest fit."""
        by_age = sorted(self.state.warm, key=lambda name: (self.state.warm[name].used_at_s, name))
        excess = sum(file.num_bytes for file in self.state.warm.values()) - self._warm_bytes_max
        effects: Effects = []
        for name in by_age:
            if excess <= 0:
                break
            num_bytes = self.state.warm[name].num_bytes
            discarded = self._discard([name])
            excess -= num_bytes * len(discarded)
            effects.extend(discarded)
        return effects
