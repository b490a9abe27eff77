"""`hotset bench simulate-rotation` and `simulate-fairness`: one worker in virtual time, under measured times.

The production policies decide; the engine is a table of measured seconds (`planner.calibration`), so a block of minutes
takes seconds and no other work on the machine disturbs it. What the table leaves out, such as the time of our own code,
is in no figure.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rotation_report import build_report
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.stats import percentile, spread
from hotset.bench.traces import ARENA_FILE, read_arena
from hotset.bench.workers import LastUse
from hotset.core.errors import ConfigError
from hotset.core.ids import TenantId
from hotset.planner.calibration import Calibration
from hotset.planner.fairness_scenario import Arrival, FairnessShape, bound, overload, simulate_sharing, widest_gap
from hotset.planner.one_worker import Served
from hotset.planner.rotation_scenario import RotationShape, simulate_rotation

CONTROL, ROTATION, LRU = "control", "rotation", "rotation, plain LRU"
FAIR, FIRST_COME = "Hotset", "first come, first served"
#: How often the loud tenant asks for each time it asked in the trace.
_LOUD = 100


def read_calibration(path: Path | None) -> Calibration:
    """Return the times of a JSON file, or those of the demo's base on a CPU.

    Raises:
        ConfigError: the file is not there, or does not hold what `Calibration` does.
    """
    if path is None:
        return Calibration()
    try:
        calibration = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not calibration.step_s or min(calibration.step_s) <= 0:
        raise ConfigError(f"{path}: step_s holds seconds above 0, of 1, 2, … sequences")
    return calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationSettings:
    """What to simulate of a rotating tenant."""

    rounds: int = 5
    shape: RotationShape = field(default_factory=RotationShape)


def run_rotation(settings: RotationSettings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Simulate control, rotation, and rotation under plain LRU, each round with requests drawn anew."""
    shape, outcomes = settings.shape, Outcomes[BlockTaken]()
    for number in range(settings.rounds):
        for kind in (CONTROL, ROTATION, LRU):
            plain = LastUse() if kind == LRU else None
            taken = simulate_rotation(shape, number, is_control=kind == CONTROL, plain=plain)
            num_tokens = round(taken.tokens_per_s * shape.seconds)
            block = BlockTaken(taken.first_token_s, num_tokens, taken.num_refused, shape.seconds)
            outcomes.add(Block(number, "", kind), block)
            p99_ms = 1000 * percentile(block.first_token_s, 99)
            say(f"round {number + 1} {kind}: victims' first token p99 {p99_ms:.0f} ms")
    setting = {
        "engine": _words(shape.calibration),
        "worker": f"{shape.num_slots} slots, {shape.sequences_max} sequences",
        "victims": f"2 tenants, {shape.victim_adapters} adapters and as many slots of reserve each, "
        f"{shape.victim_rate:g} requests/s each",
        "rotating": f"{shape.in_flight} requests in flight on {shape.rotating_adapters} adapters; "
        f"in the control on {shape.num_slots - 2 * shape.victim_adapters}",
        "requests": f"{shape.input_tokens} prompt tokens, {shape.output_tokens} generated",
        "blocks": f"{settings.rounds} rounds of {shape.seconds:g} virtual s after {shape.warmup_s:g} s",
    }
    return build_report(setting, (CONTROL, ROTATION, LRU), outcomes, bench="simulate-rotation")


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessSettings:
    """What to simulate of tenants that want more than there is."""

    traces_folder: Path
    #: Times what the engine can do.
    overload: float = 2.0
    shape: FairnessShape = field(default_factory=FairnessShape)


def run_fairness(settings: FairnessSettings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Serve the trace of 27 tenants twice over, as it is and with one tenant a hundred times as loud.

    Raises:
        ConfigError: the trace is missing or broken.
    """
    loads, loud = sharing_loads(settings.traces_folder)
    sections: list[Section] = []
    for name, arrivals in loads.items():
        squeezed = overload(arrivals, settings.shape, settings.overload)
        rows: list[Row] = []
        for side in (FAIR, FIRST_COME):
            served = simulate_sharing(settings.shape, squeezed, is_fair=side == FAIR)
            rows.append(sharing_row(side, served, squeezed, settings.shape, loud))
            say(f"{name}, {side}: {len(served):,} requests")
        sections.append(Section(title=name, columns=SHARING_COLUMNS, rows=tuple(rows)))
    setting = {
        "engine": _words(settings.shape.calibration),
        "worker": f"a slot for every adapter, {settings.shape.sequences_max} sequences",
        "load": f"{settings.overload:g} times what the engine can do, until the last request has come",
    }
    notes = (
        "gap: the widest difference of two tenants' weighted tokens over any span in which both wait",
        "bound: theorem 4.4 of arXiv 2401.00588",
        f"quiet tenants: all but {loud}",
    )
    return Report(bench="simulate-fairness", setting=setting, sections=tuple(sections), notes=notes)


def sharing_loads(traces_folder: Path) -> tuple[dict[str, list[Arrival]], TenantId]:
    """Return the trace of 27 tenants, as it is and with one tenant a hundred times as loud, and which one that is.

    Raises:
        ConfigError: the trace is missing or broken.
    """
    trace = [
        Arrival(line.at_s, TenantId(f"tenant-{line.tenant}"), line.input_tokens, max(1, line.output_tokens))
        for line in read_arena(traces_folder / ARENA_FILE)
    ]
    loud = _middle_tenant(trace)
    return {"27 tenants": trace, f"{loud} a hundred times": _louder(trace, loud)}, loud


SHARING_COLUMNS = (
    Column(key="gap", heading="widest gap", unit="weighted tokens"),
    Column(key="bound", heading="bound", unit="weighted tokens"),
    Column(key="p50", heading="quiet tenants' first token p50", unit="s", digits=1),
    Column(key="p95", heading="quiet tenants' first token p95", unit="s", digits=1),
    Column(key="answered", heading="quiet tenants' requests", unit="% begun", digits=1),
    Column(key="worst", heading="least served quiet tenant", unit="% begun", digits=1),
    Column(key="requests", heading="requests", unit="all"),
)


def sharing_row(
    side: str, served: Sequence[Served], arrivals: Sequence[Arrival], shape: FairnessShape, loud: TenantId
) -> Row:
    """Return what the tenants of one side got: gap and bound, and what the quiet ones saw."""
    end_s = max(each.asked_at_s for each in served)
    quiet = [each for each in served if each.tenant != loud]
    # One that has not begun by the end has waited at least until then.
    waits = [end_s - each.asked_at_s if (wait := each.first_token_s) is None else wait for each in quiet]
    figures = {
        "gap": widest_gap(served, end_s),
        "bound": bound(shape, arrivals),
        "p50": percentile(waits, 50),
        "p95": percentile(waits, 95),
        "answered": _begun(quiet),
        "worst": min(_begun([s for s in quiet if s.tenant == tenant]) for tenant in {s.tenant for s in quiet}),
        "requests": float(len(served)),
    }
    return Row(side=side, figures={key: spread([value]) for key, value in figures.items()})


def _begun(served: Sequence[Served]) -> float:
    return 100 * sum(each.first_token_at_s is not None for each in served) / len(served)


def _middle_tenant(trace: Iterable[Arrival]) -> TenantId:
    """Return the tenant of the middle number of requests."""
    counts = Counter(arrival.tenant for arrival in trace)
    return sorted(counts, key=lambda tenant: (counts[tenant], tenant))[len(counts) // 2]


def _louder(trace: Sequence[Arrival], loud: TenantId) -> list[Arrival]:
    """Return the trace with one tenant's requests a hundredfold, spread evenly over the whole of it."""
    own = [arrival for arrival in trace if arrival.tenant == loud]
    began_s, lasts_s = trace[0].at_s, trace[-1].at_s - trace[0].at_s
    count = len(own) * _LOUD
    many = [replace(own[index % len(own)], at_s=began_s + lasts_s * index / count) for index in range(count)]
    return sorted([*many, *(arrival for arrival in trace if arrival.tenant != loud)], key=lambda each: each.at_s)


def _words(calibration: Calibration) -> str:
    first, last = calibration.step_s[0], calibration.step_s[-1]
    steps = f"a step {1000 * first:g} ms with 1 sequence, {1000 * last:g} ms with {len(calibration.step_s)}"
    warm, cold = f"{1000 * calibration.warm_mb_s:g} ms", f"{1000 * calibration.cold_mb_s:g} ms"
    stall = f"a load stalls it {1000 * calibration.load_stall_s:g} ms"
    return f"{steps}; {stall}; a warm megabyte takes {warm}, a cold one {cold}"
