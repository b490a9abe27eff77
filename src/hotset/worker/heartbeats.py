"""How a worker says it is: the heartbeat that control and gateways get each second."""

from hotset.core.fleet import Heartbeat
from hotset.core.ids import WorkerId
from hotset.residency.slots import SlotState
from hotset.worker.engine_life import EngineLife


def heartbeat_of(life: EngineLife, worker: WorkerId) -> Heartbeat:
    """Return how a worker is whose engine serves; fence, number and epoch are the caller's to put in."""
    state = life.residency.state
    in_slots = {slot.name for slot in state.slots}
    promised = {slot.promised() for slot in state.slots if slot.state is not SlotState.HOT}
    return Heartbeat(
        worker=worker,
        fence=0,
        number=0,
        is_ready=True,
        num_free_slots=sum(slot.state is SlotState.EMPTY for slot in state.slots),
        resident=tuple(slot.name for slot in state.slots if slot.state is SlotState.HOT and slot.name is not None),
        loading=tuple(sorted(name for name in promised if name is not None)),
        warm=tuple(name for name in state.warm if name not in in_slots),
        num_running=life.num_running(),
        num_waiting=life.num_waiting(),
        oldest_wait_s=life.oldest_wait_s(),
        in_flight=dict(life.in_flight()),
        warm_load_s=life.typical_load_s("warm"),
        cold_load_s=life.typical_load_s("cold"),
    )
