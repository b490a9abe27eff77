"""`hotset bench simulate-rotation` and `simulate-fairness`: one worker in virtual time, under measured times.

The production policies decide; the engine is a table of measured seconds (`planner.calibration`), so a block of minutes
takes seconds and no other work on the machine disturbs it. What the table leaves out, such as the time of our own code,
is in no figure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Report, Row, Section
from hotset.bench.rotation_report import build_report
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.sharing import (
    FAIR,
    FIRST_COME,
    SHARING_COLUMNS,
    loads_of,
    measure,
    read_trace,
    sharing_notes,
    sharing_row,
)
from hotset.bench.stats import percentile
from hotset.bench.workers import LastUse
from hotset.core.errors import ConfigError
from hotset.planner.calibration import Calibration
from hotset.planner.fairness_scenario import FairnessShape, overload, simulate_sharing
from hotset.planner.rotation_scenario import RotationShape, simulate_rotation

CONTROL, ROTATION, LRU = "control", "rotation", "rotation, plain LRU"


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
    """Serve the trace of 27 tenants many times over, with and without a loud tenant, with and without loads.

    Raises:
        ConfigError: the trace is missing or broken.
    """
    trace = read_trace(settings.traces_folder)
    sections: list[Section] = []
    for load in loads_of(trace):
        shape = replace(settings.shape, num_adapters=load.num_adapters)
        arrivals = overload(load.arrivals, shape, settings.overload)
        rows: list[Row] = []
        for side in (FAIR, FIRST_COME):
            served = simulate_sharing(shape, arrivals, is_fair=side == FAIR)
            shared = measure(served, shape.sequences_max, trace.loud)
            rows.append(sharing_row(side, {0: shared}))
            say(f"{load.name}, {side}: {len(served):,} requests")
        sections.append(Section(title=load.name, columns=SHARING_COLUMNS, rows=tuple(rows)))
    setting = {
        "engine": _words(settings.shape.calibration),
        "worker": f"a slot for every tenant, {settings.shape.sequences_max} sequences",
        "load": f"{settings.overload:g} times what the engine can do, until the last request has come",
    }
    notes = sharing_notes(trace)
    return Report(bench="simulate-fairness", setting=setting, sections=tuple(sections), notes=notes)


def _words(calibration: Calibration) -> str:
    first, last = calibration.step_s[0], calibration.step_s[-1]
    steps = f"a step {1000 * first:g} ms with 1 sequence, {1000 * last:g} ms with {len(calibration.step_s)}"
    warm, cold = f"{1000 * calibration.warm_mb_s:g} ms", f"{1000 * calibration.cold_mb_s:g} ms"
    stall = f"a load stalls it {1000 * calibration.load_stall_s:g} ms"
    return f"{steps}; {stall}; a warm megabyte takes {warm}, a cold one {cold}"
