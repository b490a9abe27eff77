"""What follows from an effect's outcome: a load or unload that ended, one whose end is not known, an engine's death."""

import math

from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.ids import EngineName
from hotset.residency.events import (
    Count,
    Counted,
    Discard,
    Effect,
    EngineGone,
    Loaded,
    LoadFailed,
    Lost,
    OfEngine,
    Unloaded,
)
from hotset.residency.slots import LOAD_MIN_S, Slot, SlotState, State
from hotset.residency.stall import StallBudget
from hotset.residency.steps import (
    close,
    discard_unused,
    dispatch_waiters,
    empty,
    refuse_waiters,
    start_load,
    start_unload,
)
from hotset.residency.store_evictions import StoreEvictions


class Outcomes:
    """Moves slots on by what the engine answers; late answers to what is not asked any more change nothing."""

    def __init__(self, state: State, stall: StallBudget, store: StoreEvictions, *, load_retry_s: float) -> None:
        """See `Residency`."""
        self._state = state
        self._store = store
        self._stall = stall
        self._load_retry_s = load_retry_s

    def handle(self, event: OfEngine, now_s: float) -> list[Effect]:
        """Take what the engine answered, or that it is gone."""
        match event:
            case Counted(loaded):
                return self._counted(loaded, now_s)
            case EngineGone():
                return self._engine_gone()
            case _:
                slot = self._state.slots[event.slot]
                return self._answered(slot, event, now_s) if slot.name == event.name else []

    def _answered(self, slot: Slot, event: Loaded | LoadFailed | Unloaded | Lost, now_s: float) -> list[Effect]:
        match event:
            case Loaded() if slot.state is SlotState.LOADING:
                return self._loaded(slot, event, now_s)
            case LoadFailed() if slot.state is SlotState.LOADING:
                return self._load_failed(slot, event, now_s)
            case Unloaded() if slot.state is SlotState.UNLOADING:
                return self._unloaded(slot, event.name, now_s)
            case Lost() if slot.state in (SlotState.LOADING, SlotState.UNLOADING):
                return self._lost(slot, event, now_s)
            case _:
                return []

    def _counted(self, loaded: frozenset[EngineName], now_s: float) -> list[Effect]:
        """Take the engine's own account of what it holds."""
        effects: list[Effect] = []
        for slot in self._state.slots:
            if slot.state is SlotState.UNKNOWN:
                effects += self._resolve(slot, loaded, now_s)
        known = {slot.name for slot in self._state.slots}
        for orphan in sorted(loaded - known):  # a load that was given up on and came in late
            slot = next((slot for slot in self._state.slots if slot.state is SlotState.EMPTY), None)
            if slot is not None:
                self._state.doubtful.discard(orphan)
                slot.leaving = "orphan"
                self._state.move(slot, SlotState.CLOSING, orphan)
                effects += start_unload(self._state, slot)
        return effects

    def _engine_gone(self) -> list[Effect]:
        """The engine died."""
        effects: list[Effect] = []
        for slot in self._state.slots:
            effects += refuse_waiters(self._state, slot, EngineUnavailableError.code, "")
            empty(self._state, slot)
            slot.users.clear()
            slot.num_leases = 0
        self._state.doubtful.clear()
        for lease in self._state.leases.values():
            lease.slot = None  # their streams end by themselves
        return effects

    def _loaded(self, slot: Slot, event: Loaded, now_s: float) -> list[Effect]:
        state, name = self._state, event.name
        self._stall.spent(event.stall_s, now_s)
        self._store.take_in(name, event.warm_bytes, slot.account)
        state.load_failed_until_s.pop(name, None)
        state.move(slot, SlotState.HOT, name)
        slot.hot_since_s, slot.slot_bytes = now_s, event.slot_bytes
        slot.load_s, slot.log_load_s = event.load_s, math.log(max(LOAD_MIN_S, event.load_s))
        assert slot.account is not None, f"slot {slot.index} was loaded for nobody"
        room = self._store.make_room(slot.account, now_s)
        if name not in state.permitted:  # withdrawn meanwhile; its waiters were refused then
            return [*close(state, slot, "withdrawn"), *room]
        return [*dispatch_waiters(state, slot), *room]

    def _load_failed(self, slot: Slot, event: LoadFailed, now_s: float) -> list[Effect]:
        name = event.name
        self._state.load_failed_until_s[name] = now_s + self._load_retry_s
        refusals = refuse_waiters(self._state, slot, event.code, event.message)
        empty(self._state, slot)
        # Whatever the failure left: files that did not check, or a load the engine finished after all.
        if name in self._state.doubtful:
            return [*refusals, Count()]
        self._state.warm.remove(name)
        return [*refusals, Discard(name), Count()]

    def _unloaded(self, slot: Slot, name: EngineName, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        self._state.warm.used(name)
        successor, account = slot.successor, slot.account
        empty(self._state, slot)
        if name not in self._state.permitted:
            effects += discard_unused(self._state, [name])
        if successor is not None:
            self._state.charge(slot, account)
            effects += start_load(self._state, slot, successor)
        if (owner := self._state.warm.account(name)) is not None:
            effects += self._store.make_room(owner, now_s)
        return effects

    def _lost(self, slot: Slot, event: Lost, now_s: float) -> list[Effect]:
        if slot.state is not SlotState.LOADING:
            self._state.move(slot, SlotState.UNKNOWN, event.name, slot.successor)
            return [Count()]
        self._store.take_in(event.name, event.warm_bytes, slot.account)
        self._state.doubtful.add(event.name)
        self._state.move(slot, SlotState.UNKNOWN, event.name, event.name)
        assert slot.account is not None, f"slot {slot.index} was loading for nobody"
        return [Count(), *self._store.make_room(slot.account, now_s)]

    def _resolve(self, slot: Slot, loaded: frozenset[EngineName], now_s: float) -> list[Effect]:
        """End an unknown state by what the engine says it holds."""
        assert slot.name is not None
        name, successor, account = slot.name, slot.successor, slot.account
        # Asked for again meanwhile and promised another slot: what the engine holds is that one's.
        is_elsewhere = self._state.promises.get(name, slot) is not slot
        if name in loaded and successor == name:
            self._state.doubtful.discard(name)
            self._state.move(slot, SlotState.HOT, name)
            slot.hot_since_s = now_s
            return dispatch_waiters(self._state, slot)
        if name in loaded and not is_elsewhere:
            return start_unload(self._state, slot)
        if successor == name or successor is None:
            refusals = refuse_waiters(self._state, slot, LoadFailedError.code, "the load was lost")
            empty(self._state, slot)
            return refusals
        empty(self._state, slot)
        self._state.charge(slot, account)
        return start_load(self._state, slot, successor)
