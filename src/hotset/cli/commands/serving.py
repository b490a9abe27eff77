"""``hotset serve``, ``try`` and ``demo``: what starts a server."""

import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from hotset.cli.banner import tell_declared, tell_draining, tell_ready, tell_started
from hotset.cli.demo.run import DEFAULT_HOME, DemoOptions, run_demo
from hotset.cli.listening import free_port
from hotset.cli.output import console
from hotset.cli.serve import Told, serve
from hotset.cli.server_process import ServerProcess, server_process
from hotset.cli.session import CLOCK, ConfigFile, EngineOption, settings_of
from hotset.cli.trying import TryOptions, try_adapter
from hotset.telemetry.logs import configure

Port = Annotated[int | None, typer.Option(help="Of the tenant plane; 0 takes a free one.", show_default=False)]


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.command("serve")(serve_here)
    root.command("try")(try_one)
    root.command("demo")(demo)


def serve_here(
    context: typer.Context,
    file: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address of the tenant plane.", show_default=False)] = None,
    port: Port = None,
    admin_host: Annotated[str | None, typer.Option(help="Address of the operator plane.", show_default=False)] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="Of the operator plane; 0 takes a free one.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    until_input_ends: Annotated[
        bool, typer.Option("--until-input-ends", help="End also once standard input ends, as with a parent that dies.")
    ] = False,
) -> None:
    """Serve: tenant plane, operator plane and engines, until SIGTERM or Ctrl-C."""
    flags = {
        "server.tenant_host": host,
        "server.tenant_port": port,
        "server.admin_host": admin_host,
        "server.admin_port": admin_port,
        "engine.kind": engine,
    }
    settings = settings_of(context, file, flags)
    configure(level=logging.INFO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        told = Told(tell_started, tell_declared, tell_ready, tell_draining)
        runner.run(serve(settings, CLOCK, told, until_input_ends=until_input_ends))


def try_one(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The adapter's folder.")],
    base: Annotated[
        str, typer.Option(help="A base model's folder, written with a slash, or a registered base's name.")
    ],
    synonym: Annotated[
        list[str] | None, typer.Option(help="A name under which the adapter may declare the base.")
    ] = None,
    ask: Annotated[str | None, typer.Option(help="Ask this, print the answer, and end.")] = None,
    port: Port = 0,
    other_base: Annotated[bool, typer.Option("--other-base", help="Accept that it declares another base.")] = False,
) -> None:
    """Serve one adapter at once, in a state folder that is thrown away at the end."""
    options = TryOptions(folder, base, tuple(synonym or ()), ask, other_base)
    with tempfile.TemporaryDirectory(prefix="hotset-try-") as home:
        flags = ("--port", str(port or 0), "--admin-port", "0")
        with server_process(Path(home), CLOCK, flags=flags) as server:
            try_adapter(options, server, settings_of(context))


def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the story instead of serving on.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its state.")] = DEFAULT_HOME,
    adapters: Annotated[Path | None, typer.Option(help="The example adapters; found in a clone.")] = None,
    port: Annotated[int, typer.Option(help="Of the tenant plane; another one where it is taken.")] = 8080,
) -> None:
    """Serve several tenants' adapters over one base, and show who gets what."""

    @contextlib.contextmanager
    def start(home: Path) -> Generator[ServerProcess]:
        wanted = free_port("127.0.0.1", port)
        with server_process(home, CLOCK, flags=("--port", str(wanted), "--admin-port", "0")) as server:
            yield server

    try:
        run_demo(DemoOptions(home=folder, once=once, adapters=adapters), start, console(), CLOCK)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
