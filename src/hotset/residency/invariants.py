"""Re-derives every total of a residency and says where the state disagrees with itself.

Called after every event in tests and simulation, and sampled in production.
"""

from collections import Counter

from hotset.residency.slots import SlotState, State

_HOLDS = (SlotState.HOT, SlotState.CLOSING)


def check(state: State) -> None:
    """Assert everything that must hold between events.

    Raises:
        AssertionError: the state contradicts itself; the message says where.
    """
    counted = Counter(lease.slot for lease in state.leases.values() if lease.slot is not None)
    for slot in state.slots:
        assert slot.num_leases == counted[slot.index], f"slot {slot.index} counts {slot.num_leases} leases"
        assert (slot.state is SlotState.EMPTY) == (slot.name is None), f"slot {slot.index}: {slot}"
        if slot.successor is not None:
            assert slot.state in (SlotState.UNLOADING, SlotState.UNKNOWN), f"slot {slot.index}: {slot}"
    for request, lease in state.leases.items():
        if lease.slot is None:
            continue
        slot = state.slots[lease.slot]
        if lease.running:
            assert slot.state in _HOLDS, f"I3: {request} runs in a slot that is {slot.state}"
            assert slot.name == lease.name, f"I1: {request} of {lease.name} runs in a slot that holds {slot.name}"
        else:
            assert slot.promised() == lease.name, f"{request} waits for {lease.name} at {slot}"
    promised = Counter(name for slot in state.slots if (name := slot.promised()) is not None)
    assert all(count == 1 for count in promised.values()), f"promised twice: {promised}"
    running = {lease.name for lease in state.leases.values() if lease.running and lease.slot is not None}
    assert len(running) <= len(state.slots), f"I4: {len(running)} versions run in {len(state.slots)} slots"
    in_slots = {slot.name for slot in state.slots if slot.state in _HOLDS}
    assert in_slots <= set(state.warm), f"I12: hot without files: {in_slots - set(state.warm)}"
