"""Re-derives every total of a residency and says where the state disagrees with itself.

Called after every event in tests and simulation, and sampled in production.
"""

from collections import Counter

from hotset.residency.slots import SlotState, State

_HOLDS = (SlotState.HOT, SlotState.CLOSING)
_LEAVING = (SlotState.CLOSING, SlotState.UNLOADING, SlotState.UNKNOWN)


def check(state: State) -> None:
    """Assert everything that must hold between events.

    Raises:
        AssertionError: the state contradicts itself; the message says where.
    """
    for slot in state.slots:
        leases = [lease for lease in state.leases.values() if lease.slot == slot.index]
        assert slot.users == Counter(lease.tenant for lease in leases), f"slot {slot.index} counts {slot.users}"
        assert slot.num_leases == len(leases), f"slot {slot.index} counts {slot.num_leases} leases"
        waiting = [request for request, lease in state.leases.items() if lease.slot == slot.index and not lease.running]
        assert list(slot.waiting) == waiting, f"slot {slot.index}: {waiting} wait for {slot}"
        assert (slot.state is SlotState.EMPTY) == (slot.name is None), f"slot {slot.index}: {slot}"
        if slot.successor is not None:
            assert slot.state in _LEAVING, f"slot {slot.index}: {slot}"
        if slot.promised() is not None:
            assert slot.account is not None, f"slot {slot.index} is promised and charged to nobody"
        if slot.state is SlotState.CLOSING:
            assert slot.num_running, f"slot {slot.index} closes for nobody that runs"
    for request, lease in state.leases.items():
        if lease.slot is None:
            continue
        slot = state.slots[lease.slot]
        if lease.running:
            assert slot.state in _HOLDS, f"I3: {request} runs in a slot that is {slot.state}"
            assert slot.name == lease.name, f"I1: {request} of {lease.name} runs in a slot that holds {slot.name}"
        else:
            assert slot.promised() == lease.name, f"{request} waits for {lease.name} at {slot}"
    promised = {slot.index: slot.promised() for slot in state.slots if slot.promised() is not None}
    assert len(promised) == len(set(promised.values())), f"promised twice: {promised}"
    assert {slot.index: name for name, slot in state.promises.items()} == promised, f"promises {state.promises}"
    held = Counter(slot.account for slot in state.slots if slot.account is not None)
    kept = Counter(slot.account for slot in state.slots if slot.account is not None and slot.promised() is not None)
    assert (state.held, state.kept) == (held, kept), f"holdings {state.held}, of which {state.kept} are kept"
    closing = [slot.index for slot in state.slots if slot.state is SlotState.CLOSING]
    assert state.num_closing == len(closing), f"{state.num_closing} slots close, in truth {closing}"
    running = {lease.name for lease in state.leases.values() if lease.running and lease.slot is not None}
    assert len(running) <= len(state.slots), f"I4: {len(running)} versions run in {len(state.slots)} slots"
    state.warm.check()
    in_slots = {slot.name for slot in state.slots if slot.state in _HOLDS}
    assert in_slots <= set(state.warm), f"I12: hot without files: {in_slots - set(state.warm)}"
