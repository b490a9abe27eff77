"""Shows the demo's steps as they go: a bar for what takes time, a line with its duration for what is done."""

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hotset.core.clock import Clock


class Steps(Protocol):
    """Where work reports how far it is."""

    def progress(self, title: str, done: int, total: int) -> None:
        """Say how far a long step is; a `total` of 0 is not known."""
        ...

    def done(self, text: str) -> None:
        """Say that something is done."""
        ...


class StepDisplay:
    """Shows steps on a console: one bar at a time on a terminal, plain lines where the output is a file."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._title: str | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> "StepDisplay":
        """Start measuring."""
        self._began_s = self._clock.monotonic_s()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._close()

    def progress(self, title: str, done: int, total: int) -> None:
        """Move the bar, or open one under this title."""
        if title != self._title:
            self._open(title)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total or None)

    def done(self, text: str) -> None:
        """Print the line, with the seconds since the line before it."""
        self._close()
        now_s = self._clock.monotonic_s()
        self._console.print(f"[green]✓[/] {text} [dim]{now_s - self._began_s:.1f} s[/]", highlight=False)
        self._began_s = now_s

    def _open(self, title: str) -> None:
        self._close()
        self._title = title
        if not self._console.is_terminal:
            self._console.print(f"  {title} …", highlight=False)
            return
        self._bar = Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=None)
        self._bar.start()

    def _close(self) -> None:
        self._title = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
