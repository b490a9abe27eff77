"""What a simulated worker's state looks like from outside: to control and gateways, and to the check at rest."""

from collections import Counter
from collections.abc import Collection

from hotset.core.fleet import Heartbeat
from hotset.core.ids import EngineName, WorkerId
from hotset.planner.life_requests import LifeRequest
from hotset.residency.residency import Residency
from hotset.residency.slots import SlotState

_HOLDS = (SlotState.HOT, SlotState.CLOSING, SlotState.UNLOADING)


def heartbeat_of(
    residency: Residency, requests: Collection[LifeRequest], worker: WorkerId, *, fence: int, number: int, epoch: int
) -> Heartbeat:
    """Return how a worker is whose engine serves.

    Args:
        residency: Who is in its slots.
        requests: What waits or runs there.
        worker: Who it is.
        fence: Under which it serves.
        number: Of this heartbeat.
        epoch: Of the snapshot that it applies.
    """
    slots, warm = residency.state.slots, residency.state.warm
    resident = tuple(slot.name for slot in slots if slot.state is SlotState.HOT and slot.name is not None)
    num_waiting = sum(each.timer is not None for each in requests)
    return Heartbeat(
        worker=worker,
        fence=fence,
        number=number,
        snapshot_epoch=epoch,
        is_ready=True,
        num_free_slots=sum(slot.state is SlotState.EMPTY for slot in slots),
        resident=resident,
        loading=tuple(slot.name for slot in slots if slot.state is SlotState.LOADING and slot.name is not None),
        warm=tuple(name for name in warm if name not in resident),
        num_running=len(requests) - num_waiting,
        num_waiting=num_waiting,
        in_flight=dict(Counter(each.name for each in requests if each.name is not None)),
    )


def in_engine(residency: Residency) -> frozenset[EngineName]:
    """Return the versions that the policy believes to be in the engine."""
    slots = residency.state.slots
    return frozenset(slot.name for slot in slots if slot.state in _HOLDS and slot.name is not None)
