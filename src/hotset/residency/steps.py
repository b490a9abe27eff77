"""The small steps by which a slot changes, each with the effects that it asks for. No choice is made here."""

import math
from collections.abc import Iterable

from hotset.core.ids import EngineName, RequestId
from hotset.residency.events import Cause, Discard, Dispatch, Effect, Load, Refuse, Unload
from hotset.residency.slots import LOAD_MIN_S, Slot, SlotState, State


def start_load(state: State, slot: Slot, name: EngineName) -> list[Effect]:
    """Ask for a load into an empty slot."""
    state.move(slot, SlotState.LOADING, name)
    return [Load(slot.index, name)]


def close(state: State, slot: Slot, cause: Cause, successor: EngineName | None = None) -> list[Effect]:
    """Let no more requests into a hot slot; unload what is in it once nothing runs there."""
    slot.leaving = cause
    state.move(slot, SlotState.CLOSING, slot.name, successor)
    return unload_if_done(state, slot)


def unload_if_done(state: State, slot: Slot) -> list[Effect]:
    """Ask for the unload of a closing slot where nothing runs in it."""
    if slot.state is SlotState.CLOSING and slot.num_running == 0:
        return start_unload(state, slot)
    return []


def start_unload(state: State, slot: Slot) -> list[Effect]:
    """Ask for an unload."""
    assert slot.name is not None
    assert slot.num_running == 0, f"I3: unload of {slot.name} while {slot.num_running} run"
    victim = slot.account if slot.victim is None else slot.victim
    slot.victim = None
    state.move(slot, SlotState.UNLOADING, slot.name, slot.successor)
    return [Unload(slot.index, slot.name, slot.leaving, victim)]


def empty(state: State, slot: Slot) -> None:
    """Let a slot hold nothing, for nobody."""
    state.move(slot, SlotState.EMPTY, None)
    state.charge(slot, None)
    slot.victim, slot.leaving = None, "withdrawn"
    slot.load_s, slot.log_load_s, slot.slot_bytes = 0.0, math.log(LOAD_MIN_S), 0


def dispatch_waiters(state: State, slot: Slot) -> list[Effect]:
    """Let go on what waited for a slot that is hot now."""
    waiters, slot.waiting = list(slot.waiting), {}
    for request in waiters:
        state.leases[request].running = True
    return [Dispatch(request) for request in waiters]


def refuse_waiters(state: State, slot: Slot, code: str, message: str) -> list[Effect]:
    """Refuse what waits for a slot."""
    waiters: list[RequestId] = list(slot.waiting)
    for request in waiters:
        slot.drop(request, state.leases.pop(request).tenant)
    return [Refuse(request, code, message) for request in waiters]


def discard_unused(state: State, names: Iterable[EngineName]) -> list[Effect]:
    """Give up the files of those versions that no slot holds or will hold, and surely not the engine."""
    in_use = kept_files(state)
    return [Discard(name) for name in names if name not in in_use and state.warm.remove(name)]


def kept_files(state: State) -> set[EngineName | None]:
    """Return the versions whose files stay: in slots or promised one, or perhaps in the engine all the same (I12)."""
    return {slot.name for slot in state.slots} | {slot.successor for slot in state.slots} | state.doubtful
