"""Makes one command of a scenario's two ways: on an engine of the bench's own, and on a fleet that runs."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from hotset.bench.report import Report
from hotset.cli.output import console
from hotset.cli.session import Json

#: The option that chooses the second way.
_CHOICE = "gateway"


@dataclass(frozen=True, slots=True)
class Way:
    """A function of whom it asks and of options of its own, and the function whose options say whom."""

    run: Callable[..., Report]
    choose: Callable[..., Any]

    def options(self) -> dict[str, inspect.Parameter]:
        """Return all options by their names: those that have to be given, then whom to ask, then the others."""
        _, *own = inspect.signature(self.run).parameters.values()
        asked = inspect.signature(self.choose).parameters.values()
        needed = [each for each in own if each.default is inspect.Parameter.empty]
        return {each.name: each for each in (*needed, *asked, *(each for each in own if each not in needed))}

    def report(self, given: Mapping[str, Any]) -> Report:
        """Run it with the options that are its own."""
        chosen = inspect.signature(self.choose).parameters
        asked = self.choose(**{name: given[name] for name in chosen})
        return self.run(asked, **{name: given[name] for name in self.options() if name not in chosen})


def print_report(report: Report, *, as_json: bool) -> None:
    """Print a report, as tables or as JSON."""
    if as_json:
        sys.stdout.write(report.to_json() + "\n")
    else:
        console().print(report.to_rich())


def scenario_command(here: Way, there: Way | None = None) -> Callable[..., None]:
    """Return a command with the options of both ways and ``--json``; an option both have is as in the first."""
    ways = {False: here, True: there or here}
    of_way = {is_there: way.options() for is_there, way in ways.items()}

    def command(context: typer.Context, *, json: bool, **given: Any) -> None:
        is_there = bool(given.get(_CHOICE))
        _refuse_others(context, [name for name in given if name not in of_way[is_there]], is_there=is_there)
        print_report(ways[is_there].report(given), as_json=json)

    as_json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    parent = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    added = [each for name, each in of_way[True].items() if name not in of_way[False]]
    options = [*of_way[False].values(), *added, as_json]
    parameters = [parent, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options)]
    functools.update_wrapper(command, here.run, assigned=("__doc__", "__name__"))
    del command.__wrapped__  # pyright: ignore[reportFunctionMemberAccess] - else its parameters would be taken for ours
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _refuse_others(context: typer.Context, names: list[str], *, is_there: bool) -> None:
    """Refuse options that the other way alone has: who gives one takes it for granted that it counts."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            word = "not" if is_there else "only"
            raise typer.BadParameter(f"{word} with --{_CHOICE}", param_hint=f"--{name.replace('_', '-')}")
