"""What ``hotset bench`` does in virtual time: fleets with faults, and one worker from an engine's measured times."""

from pathlib import Path
from typing import Annotated

import typer

from hotset.bench import simulate, simulated
from hotset.bench.procfs import num_cores
from hotset.cli.output import warn
from hotset.cli.scenario_command import print_report
from hotset.cli.session import CLOCK, Json
from hotset.planner.fairness_scenario import FairnessShape
from hotset.planner.rotation_scenario import RotationShape

Calibration = Annotated[
    Path | None, typer.Option(help="JSON file of an engine's measured times; without it, the demo's base on a CPU.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``hotset bench``."""
    app.command("simulate")(bench_simulate)
    app.command("simulate-rotation")(bench_simulate_rotation)
    app.command("simulate-fairness")(bench_simulate_fairness)


def bench_simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 20,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Run this one alone, and show its last events.")] = None,
    events: Annotated[int, typer.Option(min=1, help="Events of each before its fleet is let come to rest.")] = 5000,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Begin no further seed after so long.")] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Look for the fewest faults that still break the rule.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop at the first seed that breaks a rule.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one for each core.")] = None,
    json: Json = False,
) -> None:
    """Run whole fleets in virtual time, with faults, and check after every event that the rules hold."""
    settings = simulate.Settings(
        seeds=range(first_seed, first_seed + seeds) if seed is None else range(seed, seed + 1),
        num_events=events,
        longest_s=None if minutes is None else minutes * 60,
        with_story=seed is not None,
        with_cut_plan=cut,
        stops_at_first=stop,
        num_processes=min(num_cores() if jobs is None else jobs, 1 if seed is not None else seeds),
    )
    report, is_clean = simulate.run(settings, CLOCK, warn)
    print_report(report, as_json=json)
    if not is_clean:
        raise typer.Exit(1)


def bench_simulate_rotation(
    calibration: Calibration = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each kind of block is run.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Counted virtual seconds of each block.")] = 120.0,
    json: Json = False,
) -> None:
    """Simulate what a rotating tenant does to tenants inside their reserves, from an engine's measured times."""
    shape = RotationShape(seconds=seconds, calibration=simulated.read_calibration(calibration))
    print_report(simulated.run_rotation(simulated.RotationSettings(rounds=rounds, shape=shape), warn), as_json=json)


def bench_simulate_fairness(
    traces_dir: Annotated[Path, typer.Option(help="Folder of the trace files.")],
    calibration: Calibration = None,
    overload: Annotated[float, typer.Option(min=0.1, help="Load, in times what the engine can do.")] = 2.0,
    json: Json = False,
) -> None:
    """Simulate how tenants share an engine that is asked for too much, beside first come, first served."""
    shape = FairnessShape(calibration=simulated.read_calibration(calibration))
    settings = simulated.FairnessSettings(traces_folder=traces_dir, overload=overload, shape=shape)
    print_report(simulated.run_fairness(settings, warn), as_json=json)
