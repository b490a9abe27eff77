"""The scenarios of ``hotset bench`` with ``--gateway``: on a fleet that runs, which they load for real."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hotset.bench import own_scenarios
from hotset.bench.crowd import Habits, Pace
from hotset.bench.own_fleet import OwnFleet
from hotset.bench.own_scenarios import Settings
from hotset.bench.report import Report
from hotset.cli.output import warn

#: Makes settings of what a scenario adds: its habits, its pace, and the files of the keys that ask for much.
AskedFleet = Callable[..., Settings]

_FLEET = "With --gateway: "
Warmup = Annotated[float, typer.Option(min=0, help=_FLEET + "seconds before those that count, in each block.")]


def fleet_of(
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            help="Ask a fleet that runs, at this address of its tenant plane, in turn with others. Loads it for real.",
            show_default=False,
        ),
    ] = None,
    victim_key: Annotated[
        list[Path] | None,
        typer.Option(help=_FLEET + "file of a victim's key; all its models are hot.", show_default=False),
    ] = None,
    slots_left: Annotated[
        int | None, typer.Option(min=1, help=_FLEET + "slots beyond the victims' models.", show_default=False)
    ] = None,
    minutes_max: Annotated[float, typer.Option(min=0.01, help=_FLEET + "end it after so long.")] = 30.0,
) -> AskedFleet:
    """Return what makes the settings of a run on this fleet."""
    if slots_left is None:
        raise typer.BadParameter("a fleet's bench needs it", param_hint="--slots-left")
    return partial(
        Settings,
        fleet=OwnFleet(gateways=tuple(gateway or ()), minutes_max=minutes_max),
        victim_keys=_needed(victim_key, "--victim-key"),
        slots_left=slots_left,
    )


def rotation(
    asked: AskedFleet,
    rounds: int,
    seconds: float,
    in_flight: int,
    warmup: Warmup = 5.0,
    rotating_key: Annotated[
        Path | None,
        typer.Option(
            help=_FLEET + "file of the rotating tenant's key; it asks for all its models.", show_default=False
        ),
    ] = None,
) -> Report:
    """Run the rotation."""
    settings = asked(
        habits=Habits(in_flight=in_flight),
        pace=Pace(rounds=rounds, seconds=seconds, warmup_s=warmup),
        other_keys=_needed([rotating_key] if rotating_key else [], "--rotating-key"),
    )
    _tell(settings)
    return own_scenarios.run_rotation(settings, warn)


def cliff(
    asked: AskedFleet,
    rounds: int,
    seconds: float,
    in_flight: int,
    plot: Path | None,
    warmup: Warmup = 5.0,
    crowd_key: Annotated[
        Path | None,
        typer.Option(help=_FLEET + "file of the crowd's key; ever more of its models are active.", show_default=False),
    ] = None,
) -> Report:
    """Run the cliff."""
    settings = asked(
        habits=Habits(in_flight=in_flight),
        pace=Pace(rounds=rounds, seconds=seconds, warmup_s=warmup),
        other_keys=_needed([crowd_key] if crowd_key else [], "--crowd-key"),
    )
    _tell(settings)
    report, picture = own_scenarios.run_cliff(settings, warn)
    if plot is not None:
        plot.write_text(picture)
    return report


def storm(
    asked: AskedFleet,
    rounds: int,
    seconds: float,
    budget_ms: int,
    clients_each: int,
    warmup: Warmup = 5.0,
    cold_key: Annotated[
        list[Path] | None,
        typer.Option(help=_FLEET + "file of a key whose models are all asked for at once.", show_default=False),
    ] = None,
) -> Report:
    """Run the storm."""
    settings = asked(
        habits=Habits(victim_rate=4.0, in_flight=0),
        pace=Pace(rounds=rounds, seconds=seconds, warmup_s=warmup),
        other_keys=_needed(cold_key, "--cold-key"),
    )
    _tell(settings)
    return own_scenarios.run_storm(settings, budget_ms, clients_each, warn)


def _needed(files: list[Path] | None, option: str) -> tuple[Path, ...]:
    if not files:
        raise typer.BadParameter("a fleet's bench needs it", param_hint=option)
    return tuple(files)


def _tell(settings: Settings) -> None:
    warn(f"This loads the fleet at {', '.join(settings.fleet.gateways)} for real.")
