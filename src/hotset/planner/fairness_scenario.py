"""How fairly one simulated worker's engine is shared by tenants who all want more than there is.

Every tenant is owed a slot. With one adapter each, all are in slots and the queue in front of the engine alone decides;
with more, each tenant turns over its own slot, and is not served while its next adapter is on the way. What comes of it
is measured by `service_gap`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hotset.core.ids import TenantId
from hotset.core.quotas import Quota
from hotset.planner.calibration import Calibration
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.one_worker import EVERYBODY, OneWorker, Served
from hotset.sim.world import World

_FOR_EVER_S = 1e9


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace."""

    at_s: float
    tenant: TenantId
    input_tokens: int
    output_tokens: int
    #: Which of its tenant's adapters it asks for.
    adapter: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessShape:
    """The worker, and what it serves."""

    sequences_max: int = 8
    #: Of each tenant; it has one slot for all of them.
    num_adapters: int = 1
    rank: int = 8
    calibration: Calibration = field(default_factory=Calibration)

    def seconds_of(self, arrivals: Sequence[Arrival]) -> float:
        """Return what a full engine takes for all of them."""
        token_s = self.calibration.step(self.sequences_max, 0) / self.sequences_max
        return sum(
            each.output_tokens * token_s + each.input_tokens * self.calibration.prompt_token_s for each in arrivals
        )


def overload(arrivals: Sequence[Arrival], shape: FairnessShape, factor: float) -> list[Arrival]:
    """Return the same requests so close together that they ask for so many times what the engine can do."""
    lasts_s = arrivals[-1].at_s - arrivals[0].at_s
    scale = shape.seconds_of(arrivals) / factor / lasts_s
    began_s = arrivals[0].at_s
    return [replace(each, at_s=(each.at_s - began_s) * scale) for each in arrivals]


def simulate_sharing(shape: FairnessShape, arrivals: Sequence[Arrival], *, is_fair: bool) -> list[Served]:
    """Serve the requests until the last one has come; return what each got by then.

    Args:
        shape: The worker.
        arrivals: In order of time.
        is_fair: Whether the queue tells tenants apart; else they go as they came.
    """
    tenants = sorted({each.tenant for each in arrivals})
    world = World(0)
    worker_shape = WorkerShape(
        num_slots=len(tenants),
        sequences_max=shape.sequences_max,
        waiting_max=4 * len(arrivals),
        warm_bytes_max=1 << 40,
        load_timeout_s=_FOR_EVER_S,
        effect_timeout_s=60.0,
        loads_per_minute=60_000.0,
        calibration=shape.calibration,
    )
    counts = dict.fromkeys(tenants, shape.num_adapters)
    worker = OneWorker(world, worker_shape, counts, rank=shape.rank, is_one_account=not is_fair)
    worker.permit({tenant: Quota(1, 1) for tenant in tenants} if is_fair else {EVERYBODY: Quota(0, len(tenants))})
    for tenant in tenants:  # brings its first adapter in
        worker.ask(tenant, worker.records[tenant][0], input_tokens=1, output_tokens=1)
    while any(each.ended_at_s is None for each in worker.served):
        world.step()
    num_first, began_s = len(worker.served), world.now_s

    def ask(arrival: Arrival) -> None:
        record = worker.records[arrival.tenant][arrival.adapter]
        worker.ask(arrival.tenant, record, input_tokens=arrival.input_tokens, output_tokens=arrival.output_tokens)

    for arrival in arrivals:
        world.after(arrival.at_s, f"{arrival.tenant} asks", partial(ask, arrival))
    worker.run_until(began_s + arrivals[-1].at_s)
    return worker.served[num_first:]
