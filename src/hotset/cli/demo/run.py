"""Runs the demo from nothing to its story: base, server, tenants, adapters, questions; then it goes on serving.

A start that finds things done goes on from there: the base, and every version in the state it reached.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hotset.cli.demo.base_from_package import build_base
from hotset.cli.demo.cast import BASE_NAME, find_adapters
from hotset.cli.demo.setup import set_up
from hotset.cli.demo.steps import StepDisplay
from hotset.cli.demo.story import tell
from hotset.cli.server_process import ServerProcess
from hotset.core.clock import Clock

#: Where the demo keeps its state, under the current folder.
DEFAULT_HOME = Path(".demo")


@dataclass(frozen=True)
class DemoOptions:
    """What the user may choose."""

    home: Path = DEFAULT_HOME
    #: End after the story instead of serving on.
    once: bool = False
    #: Where the example adapters lie; found in the clone by default.
    adapters: Path | None = None


def run_demo(
    options: DemoOptions,
    start_server: Callable[[Path], AbstractContextManager[ServerProcess]],
    console: Console,
    clock: Clock,
) -> None:
    """Run the demo.

    Args:
        options: What the user chose.
        start_server: Starts a server on a state folder; leaving the context stops it.
        console: Where to print.
        clock: Measures steps and first tokens.

    Raises:
        HotsetError: a step failed; the error says which and what to do.
    """
    home = options.home.absolute()
    base_folder = home / "bases" / BASE_NAME
    with StepDisplay(console, clock) as steps:
        adapters = find_adapters(options.adapters)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        build_base(base_folder, on_progress=steps.progress)
        steps.done(f"base model in {base_folder}")
        steps.progress("start the server", 0, 0)
        with start_server(home) as server:
            steps.done(f"server at {server.base_url}")
            tokens = set_up(server.admin, base_folder, adapters, steps)
            steps.progress("wait for the engine", 0, 0)
            server.wait_ready()
            steps.done("the engine serves")
            tell(server.base_url, tokens, console, clock)
            console.print(f"\n{last_words(home, once=options.once)}", style="bold", soft_wrap=True, markup=False)
            if not options.once:
                server.wait_end()


def last_words(home: Path, *, once: bool) -> str:
    """Return what the demo says after its story: the lines to paste need a server that serves on."""
    if once:
        return (
            f"The story is over, and the server with it; without --once it serves on, with new keys. State is in {home}"
        )
    return f"Serving; Ctrl-C ends it. State is in {home}"
