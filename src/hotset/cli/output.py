"""How commands print: tables and sentences for people, JSON for programs, progress on the error stream."""

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

_WIDTH_OFF_TERMINAL = 200
_UNITS = ("B", "KB", "MB", "GB", "TB")


def console(*, stderr: bool = False) -> Console:
    """Return a console of one stream; off a terminal its lines are long, so that tables stay whole."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _WIDTH_OFF_TERMINAL, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print a sentence; text from outside is not taken for markup."""
    console().print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a sentence on the error stream."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)


def print_json(answer: Any) -> None:
    """Print an answer for programs."""
    sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows under their columns' names, or `empty` where there is none."""
    # On a narrow terminal a long name goes on in the next line: half of one tells nobody which version it is.
    headers = (Column(name, overflow="fold") for name in columns)
    table = Table(*headers, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if table.row_count:
        console().print(table)
    else:
        say(empty)


def warn_unreached(answer: Mapping[str, Any]) -> None:
    """Say on the error stream whose part is missing from an answer of control."""
    for each in answer.get("unreached", ()):
        warn(f"Not reached: {each['role']} {each['name']}: {each['reason']}.")


def tell(answer: Any, sentence: str, *, as_json: bool) -> None:
    """Print an answer for programs, or the sentence that says as much to people, and whose part it lacks."""
    if as_json:
        print_json(answer)
        return
    say(sentence)
    if isinstance(answer, dict):
        warn_unreached(cast("dict[str, Any]", answer))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in pairs:
        table.add_row(name, _cell(value), style=None)
    console().print(table)


def moment(at_s: float | None) -> str:
    """Return seconds since the epoch as UTC, or a dash."""
    return "-" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def size(num_bytes: float) -> str:
    """Return a number of bytes in the largest unit that keeps it at 1 or more."""
    for unit in _UNITS:
        if num_bytes < 1000 or unit == _UNITS[-1]:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    raise AssertionError("the last unit takes any number")


@contextlib.contextmanager
def progress(title: str) -> Generator[Callable[[dict[str, Any]], None]]:
    """Give a function that shows progress events of the admin API: a bar on a terminal, else a line for each phase."""
    stream = console(stderr=True)
    if not stream.is_terminal:
        yield _line_a_phase(title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"), TimeElapsedColumn())
    with Progress(*columns, console=stream, transient=True) as bar:
        task = bar.add_task(title, total=None, amount="")

        def show(event: dict[str, Any]) -> None:
            done, total, unit = event["done"], event["total"], event["unit"]
            amount = f"{size(done)} of {size(total)}" if unit == "bytes" else f"{done} of {total} {unit}"
            bar.update(
                task,
                description=f"{title}: {phase_of(event)}",
                completed=done,
                total=total or None,
                amount=amount if total else "",
            )

        yield show


def _line_a_phase(title: str) -> Callable[[dict[str, Any]], None]:
    begun = ""

    def show(event: dict[str, Any]) -> None:
        nonlocal begun
        if (phase := phase_of(event)) != begun:
            begun = phase
            warn(f"{title}: {phase} …")

    return show


def phase_of(event: Mapping[str, Any]) -> str:
    """Return the phase of a progress event in words."""
    return str(event["phase"]).replace("_", " ")


def duration(seconds: float | None) -> str | None:
    """Return a duration in the unit that suits it."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, length_s in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}"
    return f"{seconds:.1f} s"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        value = "yes" if value else "no"
    text = "-" if value is None or value == "" else str(value)
    return text.replace("[", r"\[")
