"""What the two fairness benches share: the trace of 27 tenants as loads, and what its tenants got of an engine.

With one adapter each, all are in slots. With two adapters and one slot each, every tenant turns over its own slot, so
that what loads cost is seen apart from what the queue does.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotset.bench.report import Column, Row
from hotset.bench.rounds import over_rounds
from hotset.bench.stats import percentile
from hotset.bench.traces import ARENA_FILE, read_arena
from hotset.core.ids import TenantId
from hotset.planner.fairness_scenario import Arrival
from hotset.planner.one_worker import Served
from hotset.planner.service_gap import INPUT_WEIGHT, OUTPUT_WEIGHT, Gap, bound, courses, gaps

FAIR, FIRST_COME = "Hotset", "first come, first served"
#: How often the loud tenant asks for each time it asked in the trace.
_LOUD = 100
#: A version that takes longer to come into its slot was not there.
_LOAD_MIN_S = 0.002

SHARING_COLUMNS = (
    Column(key="gap", heading="widest gap", unit="weighted tokens"),
    Column(key="bound", heading="its bound", unit="weighted tokens"),
    Column(key="loads", heading="of that for loads", unit="weighted tokens"),
    Column(key="nearest", heading="nearest to its bound", unit="% of it", digits=1),
    Column(key="rate", heading="all tenants", unit="weighted tokens/s"),
    Column(key="slotless", heading="waited for a slot", unit="% of begun", digits=1),
    Column(key="slot_p95", heading="for how long, p95", unit="s", digits=2),
    Column(key="p50", heading="quiet tenants' first token p50", unit="s", digits=1),
    Column(key="p95", heading="quiet tenants' first token p95", unit="s", digits=1),
    Column(key="answered", heading="quiet tenants' requests", unit="% begun", digits=1),
    Column(key="worst", heading="least served quiet tenant", unit="% begun", digits=1),
    Column(key="requests", heading="requests", unit="all"),
)


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests of many tenants, and which of them is made loud."""

    arrivals: Sequence[Arrival]
    loud: TenantId


@dataclass(frozen=True, slots=True)
class Load:
    """One way to ask."""

    name: str
    arrivals: Sequence[Arrival]
    #: Of each tenant.
    num_adapters: int


def read_trace(traces_folder: Path, shortened: float = 1.0) -> Trace:
    """Return the trace of 27 tenants; the one with the middle number of requests is to be loud.

    Args:
        traces_folder: Where its file lies.
        shortened: What prompts and answers are divided by.

    Raises:
        ConfigError: the trace is missing or broken.
    """
    arrivals = [
        Arrival(
            line.at_s,
            TenantId(f"tenant-{line.tenant}"),
            round(line.input_tokens / shortened),
            max(1, round(line.output_tokens / shortened)),
        )
        for line in read_arena(traces_folder / ARENA_FILE)
    ]
    counts = Counter(arrival.tenant for arrival in arrivals)
    return Trace(arrivals, sorted(counts, key=lambda tenant: (counts[tenant], tenant))[len(counts) // 2])


def loads_of(trace: Trace) -> list[Load]:
    """Return the trace as it is and with a tenant a hundred times as loud, each with one and two adapters a tenant."""
    num_tenants = len({arrival.tenant for arrival in trace.arrivals})
    asked = {f"{num_tenants} tenants": trace.arrivals, f"{trace.loud} a hundred times": _louder(trace)}
    return [
        Load(f"{name}, {words}", _spread_out(arrivals, count), count)
        for count, words in ((1, "all adapters in slots"), (2, "two adapters and one slot each"))
        for name, arrivals in asked.items()
    ]


def measure(served: Sequence[Served], sequences_max: int, loud: TenantId) -> dict[str, float]:
    """Return what the tenants of one side got, by the keys of `SHARING_COLUMNS`.

    Args:
        served: Every request that was asked, at least one.
        sequences_max: In the engine at a time.
        loud: Who does not count among the quiet tenants.
    """
    began_s, end_s = served[0].asked_at_s, max(each.asked_at_s for each in served)
    quiet = [each for each in served if each.tenant != loud]
    # One that has not begun by the end has waited at least until then.
    waits_s = [end_s - each.asked_at_s if (wait_s := each.first_token_s) is None else wait_s for each in quiet]
    slots_s = [each.hot_at_s - each.asked_at_s for each in served if each.hot_at_s is not None]
    waited_s = [wait_s for wait_s in slots_s if wait_s > _LOAD_MIN_S]
    tenants = courses(served, end_s)
    rate = sum(amount for tenant in tenants for _, amount in tenant.services) / (end_s - began_s)
    inputs, outputs = [each.input_tokens for each in served], [each.output_tokens for each in served]
    queue_bound = bound(sequences_max, max(inputs), max(outputs))
    found = [*gaps(tenants, queue_bound, rate), Gap(0.0, queue_bound)]
    widest = max(found)
    return {
        "gap": widest.width,
        "bound": widest.allowed,
        "loads": widest.allowed - queue_bound,
        "nearest": 100 * max(each.share for each in found),
        "rate": rate,
        "slotless": 100 * len(waited_s) / max(1, len(slots_s)),
        "slot_p95": percentile(waited_s, 95) if waited_s else 0.0,
        "p50": percentile(waits_s, 50),
        "p95": percentile(waits_s, 95),
        "answered": _begun(quiet),
        "worst": min(_begun([s for s in quiet if s.tenant == tenant]) for tenant in {s.tenant for s in quiet}),
        "requests": float(len(served)),
    }


def sharing_row(side: str, rounds: Mapping[int, Mapping[str, float]]) -> Row:
    """Return what one side got in each of several rounds."""
    keys = [column.key for column in SHARING_COLUMNS]
    return Row(side=side, figures={key: over_rounds({n: one[key] for n, one in rounds.items()}) for key in keys})


def sharing_notes(trace: Trace) -> tuple[str, ...]:
    """Return how the figures are to be read."""
    return (
        "gap: the widest difference of two tenants' weighted tokens over any span in which both wait",
        f"weighted tokens: a prompt's count {INPUT_WEIGHT:g}, generated ones {OUTPUT_WEIGHT:g}",
        "bound: theorem 4.4 of arXiv 2401.00588, and what the worker does in the time that the two's loads took",
        "nearest: of all pairs the gap that is the largest share of its own bound",
        "waited for a slot: for the load, and before it for what its own tenant's other adapter had to serve",
        f"quiet tenants: all but {trace.loud}",
    )


def _begun(served: Sequence[Served]) -> float:
    return 100 * sum(each.first_token_at_s is not None for each in served) / len(served)


def _louder(trace: Trace) -> list[Arrival]:
    """Return the trace with one tenant's requests a hundredfold, spread evenly over the whole of it."""
    arrivals = trace.arrivals
    own = [arrival for arrival in arrivals if arrival.tenant == trace.loud]
    began_s, lasts_s = arrivals[0].at_s, arrivals[-1].at_s - arrivals[0].at_s
    count = len(own) * _LOUD
    many = [replace(own[index % len(own)], at_s=began_s + lasts_s * index / count) for index in range(count)]
    quiet = (arrival for arrival in arrivals if arrival.tenant != trace.loud)
    return sorted([*many, *quiet], key=lambda arrival: arrival.at_s)


def _spread_out(arrivals: Iterable[Arrival], num_adapters: int) -> list[Arrival]:
    """Return the requests with adapters drawn at random, all alike."""
    chance = random.Random(0)  # noqa: S311 - requests, not secrets
    return [replace(arrival, adapter=chance.randrange(num_adapters)) for arrival in arrivals]
