"""How fairly one simulated worker's engine is shared by tenants who all want more than there is.

All adapters are in slots, so the queue in front of the engine alone decides. A tenant's service is its prompts' tokens,
counted when they go to the engine, and its generated tokens, weighted as the queue weighs them. Over any span in which
two tenants both have requests waiting, VTC serves them alike but for a bound (arXiv 2401.00588, theorem 4.4).
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hotset.core.ids import TenantId
from hotset.core.quotas import Quota
from hotset.planner.calibration import Calibration
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.one_worker import EVERYBODY, OneWorker, Served
from hotset.sim.world import World

#: As in `admission.fair_queue`.
INPUT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0
_FOR_EVER_S = 1e9


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace."""

    at_s: float
    tenant: TenantId
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessShape:
    """The worker."""

    sequences_max: int = 8
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
    return [
        Arrival((each.at_s - began_s) * scale, each.tenant, each.input_tokens, each.output_tokens) for each in arrivals
    ]


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
    worker = OneWorker(world, worker_shape, dict.fromkeys(tenants, 1), rank=shape.rank, is_one_account=not is_fair)
    worker.permit({tenant: Quota(1) for tenant in tenants} if is_fair else {EVERYBODY: Quota(0, len(tenants))})
    for tenant in tenants:  # brings each adapter in
        worker.ask(tenant, worker.records[tenant][0], input_tokens=1, output_tokens=1)
    while any(each.ended_at_s is None for each in worker.served):
        world.step()
    num_first, began_s = len(worker.served), world.now_s

    def ask(arrival: Arrival) -> None:
        record = worker.records[arrival.tenant][0]
        worker.ask(arrival.tenant, record, input_tokens=arrival.input_tokens, output_tokens=arrival.output_tokens)

    for arrival in arrivals:
        world.after(arrival.at_s, f"{arrival.tenant} asks", partial(ask, arrival))
    worker.run_until(began_s + arrivals[-1].at_s)
    return worker.served[num_first:]


def bound(shape: FairnessShape, arrivals: Sequence[Arrival]) -> float:
    """Return how far apart the service of two tenants who both wait may ever be, in weighted tokens."""
    longest_input = max(each.input_tokens for each in arrivals)
    in_flight = shape.sequences_max * max(each.output_tokens for each in arrivals)
    return 2 * max(INPUT_WEIGHT * longest_input, OUTPUT_WEIGHT * in_flight)


def widest_gap(served: Sequence[Served], end_s: float) -> float:
    """Return the widest difference of two tenants' service over any span in which both wait, in weighted tokens."""
    by_tenant: dict[TenantId, list[Served]] = {}
    for each in served:
        by_tenant.setdefault(each.tenant, []).append(each)
    tenants = sorted(by_tenant)
    waits = {tenant: _waiting_spans(by_tenant[tenant], end_s) for tenant in tenants}
    serves = {tenant: _services(by_tenant[tenant]) for tenant in tenants}
    widest = 0.0
    for index, one in enumerate(tenants):
        for other in tenants[index + 1 :]:
            for from_s, until_s in _both(waits[one], waits[other]):
                widest = max(widest, _range(serves[one], serves[other], from_s, until_s))
    return widest


def _waiting_spans(served: Sequence[Served], end_s: float) -> list[tuple[float, float]]:
    """Return the spans of time in which one of a tenant's requests waits for a place, joined."""
    waits = sorted(
        (each.asked_at_s, end_s if each.dispatched_at_s is None else each.dispatched_at_s) for each in served
    )
    joined: list[tuple[float, float]] = []
    for from_s, until_s in waits:
        if joined and from_s <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], until_s)
        elif until_s > from_s:
            joined.append((from_s, until_s))
    return joined


def _services(served: Sequence[Served]) -> list[tuple[float, float]]:
    """Return when a tenant was served how much, in order of time."""
    prompts = ((each.dispatched_at_s, INPUT_WEIGHT * each.input_tokens) for each in served)
    tokens = ((at_s, OUTPUT_WEIGHT) for each in served for at_s in each.token_at_s)
    return sorted([*((at_s, amount) for at_s, amount in prompts if at_s is not None), *tokens])


def _both(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the spans in which both wait."""
    for from_s, until_s in one:
        for start_s, stop_s in other:
            if max(from_s, start_s) < min(until_s, stop_s):
                yield max(from_s, start_s), min(until_s, stop_s)


def _range(
    one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]], from_s: float, until_s: float
) -> float:
    """Return the widest difference of service over any part of a span: how far their difference ranges in it."""
    changes = [(at_s, amount) for at_s, amount in one if from_s < at_s <= until_s]
    changes += [(at_s, -amount) for at_s, amount in other if from_s < at_s <= until_s]
    level = lowest = highest = 0.0
    for _, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        level += sum(amount for _, amount in together)
        lowest, highest = min(lowest, level), max(highest, level)
    return highest - lowest
