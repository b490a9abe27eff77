"""The scenarios of ``hotset bench``: tenants that misbehave, beside a control, on one worker of the bench's own.

Each is written as a function of an engine and of what is its own; `scenario_command` gives all of them the same options
for the engine, joins them with those for a fleet that runs (`bench_own_fleet`), and prints what they report.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from hotset.bench import cliff, fairness, rotation, storm
from hotset.bench.crowd import Habits
from hotset.bench.report import Report
from hotset.bench.workers import EngineChoice
from hotset.cli.commands import bench_own_fleet
from hotset.cli.output import warn
from hotset.cli.scenario_command import Way, scenario_command
from hotset.engines.fake.profiles import ProfileName

EngineKind = Literal["embedded", "fake"]
Engine = Annotated[EngineKind, typer.Option(help="The embedded one needs --base; the fake one computes nothing.")]
Base = Annotated[Path | None, typer.Option(help="The base model's folder, for the embedded engine.")]
Profile = Annotated[ProfileName, typer.Option(help="Whose times the fake engine has.")]
RealTime = Annotated[
    bool, typer.Option("--real-time", help="Run the fake engine in a process of its own, by the machine's clock.")
]
Rounds = Annotated[int, typer.Option(min=1, help="How often each kind of block is run.")]
Seconds = Annotated[float, typer.Option(min=1, help="Counted seconds of each block.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``hotset bench``."""
    for run, on_fleet in (
        (_rotation, bench_own_fleet.rotation),
        (_cliff, bench_own_fleet.cliff),
        (_storm, bench_own_fleet.storm),
    ):
        here, there = Way(run, _choice), Way(on_fleet, bench_own_fleet.fleet_of)
        app.command(on_fleet.__name__)(scenario_command(here, there))
    app.command("fairness")(scenario_command(Way(_fairness, _choice)))


def _choice(
    base: Base = None, engine: Engine = "fake", profile: Profile = "plain", real_time: RealTime = False
) -> EngineChoice:
    """Return the engine that these options name."""
    if engine == "embedded" and base is None:
        raise typer.BadParameter("the embedded engine needs a base", param_hint="--base")
    return EngineChoice(base_folder=base if engine == "embedded" else None, profile=profile, is_virtual=not real_time)


def _rotation(
    engine: EngineChoice,
    rounds: Rounds = 5,
    seconds: Seconds = 10.0,
    slots: Annotated[int, typer.Option(min=6, help="Slots of the engine; four are the victims' reserves.")] = 8,
    adapters: Annotated[int, typer.Option(min=4, help="Adapters that the rotating tenant turns over.")] = 40,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests that it keeps in flight.")] = 8,
) -> Report:
    """Measure what a tenant that rotates through many adapters does to tenants inside their reserves.

    With --gateway on a fleet that runs, which it loads for real.
    """
    settings = rotation.Settings(
        engine=engine,
        habits=Habits(in_flight=in_flight),
        rounds=rounds,
        seconds=seconds,
        num_slots=slots,
        rotating_adapters=adapters,
    )
    return rotation.run(settings, warn)


def _cliff(
    engine: EngineChoice,
    rounds: Rounds = 5,
    seconds: Seconds = 5.0,
    slots: Annotated[int, typer.Option(min=4, help="Slots of the engine; two are reserved.")] = 8,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests that the crowd keeps in flight.")] = 16,
    plot: Annotated[Path | None, typer.Option(help="Where to write the picture, an SVG file.")] = None,
) -> Report:
    """Measure first tokens of tenants inside their reserves as more adapters are active than there are slots.

    With --gateway on a fleet that runs, which it loads for real.
    """
    settings = cliff.Settings(
        engine=engine, habits=Habits(in_flight=in_flight), rounds=rounds, seconds=seconds, num_slots=slots
    )
    report, picture = cliff.run(settings, warn)
    if plot is not None:
        plot.write_text(picture)
    return report


def _storm(
    engine: EngineChoice,
    rounds: Rounds = 5,
    seconds: Seconds = 10.0,
    slots: Annotated[int, typer.Option(min=5, help="Slots of the engine; four are reserved.")] = 8,
    adapters: Annotated[int, typer.Option(min=1, help="Cold adapters.")] = 200,
    budget_ms: Annotated[int, typer.Option(min=1, help="First-token budget of who asks for one.")] = 2000,
    clients_each: Annotated[int, typer.Option(min=1, help="Clients of each adapter where nobody has a budget.")] = 5,
) -> Report:
    """Measure what becomes of many cold adapters asked for at once, with a first-token budget and without.

    With --gateway on a fleet that runs, which it loads for real.
    """
    settings = storm.Settings(
        engine=engine,
        rounds=rounds,
        seconds=seconds,
        num_slots=slots,
        cold_adapters=adapters,
        budget_ms=budget_ms,
        clients_each=clients_each,
    )
    return storm.run(settings, warn)


def _fairness(
    engine: EngineChoice,
    traces_dir: Annotated[Path, typer.Option(help="Folder of the trace files.")],
    rounds: Rounds = 5,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Minutes of each load on each side, all rounds together.")
    ] = 5.0,
    overload: Annotated[float, typer.Option(min=0.1, help="Load, in times what the engine can do.")] = 2.0,
    shortened: Annotated[
        float, typer.Option(min=1, help="Divide prompts and answers by this; for an engine that takes long over them.")
    ] = 1.0,
) -> Report:
    """Measure how tenants share an engine that is asked for too much, beside first come, first served."""
    settings = fairness.Settings(
        engine=engine,
        traces_folder=traces_dir,
        rounds=rounds,
        minutes=minutes,
        overload=overload,
        shortened=shortened,
    )
    return fairness.run(settings, warn)
