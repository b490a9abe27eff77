"""``hotset control``, ``gateway`` and ``worker``: the processes of a fleet."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Annotated, Any

import typer
import uvloop

from hotset.cli.banner import (
    tell_control_started,
    tell_declared,
    tell_draining,
    tell_gateway_ready,
    tell_gateway_started,
    tell_ready,
    tell_worker_started,
)
from hotset.cli.commands.fleet import workers
from hotset.cli.fleet.control import ControlTold, run_control
from hotset.cli.fleet.gateway import GatewayTold, run_gateway
from hotset.cli.fleet.worker import WorkerTold, run_worker
from hotset.cli.output import print_json, print_table, say, warn_unreached
from hotset.cli.session import CLOCK, ConfigFile, EngineOption, Json, Yes, admin, confirm, settings_of
from hotset.telemetry.logs import configure

Name = Annotated[str | None, typer.Option(help="Of this process among those of its role.", show_default=False)]
ControlAddress = Annotated[
    str | None, typer.Option(help="Where control listens: unix:/PATH or tls://HOST:PORT.", show_default=False)
]
MetricsPort = Annotated[int | None, typer.Option(help="Of its own metrics page; none without.", show_default=False)]


holders = typer.Typer(no_args_is_help=True, help="Gateways and workers in processes of their own: list, remove.")
_HOLDER_COLUMNS = ("role", "name", "epoch", "linked for", "fence")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(holders, name="holder")
    root.command("control")(control)
    root.command("gateway")(gateway)
    # `hotset worker` runs one; `hotset worker list` and its like are commands on those that run.
    workers.callback(invoke_without_command=True)(worker)


def control(
    context: typer.Context,
    file: ConfigFile = None,
    listen: ControlAddress = None,
    admin_host: Annotated[str | None, typer.Option(help="Address of the operator plane.", show_default=False)] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="Of the operator plane; 0 takes a free one.", show_default=False)
    ] = None,
    engine: EngineOption = None,
) -> None:
    """Run control: the operator plane, and snapshots for gateways and workers in processes of their own."""
    flags = {
        "server.admin_host": admin_host,
        "server.admin_port": admin_port,
        "fleet.control": listen,
        "engine.kind": engine,
    }
    settings = settings_of(context, file, flags)
    _run(run_control(settings, CLOCK, ControlTold(tell_control_started, tell_declared)))


def gateway(
    context: typer.Context,
    file: ConfigFile = None,
    name: Name = None,
    control: ControlAddress = None,
    host: Annotated[str | None, typer.Option(help="Address of the tenant plane.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(help="Of the tenant plane; 0 takes a free one.", show_default=False)
    ] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run a gateway: the tenant plane, over workers in processes of their own."""
    flags = {
        "fleet.name": name,
        "fleet.control": control,
        "server.tenant_host": host,
        "server.tenant_port": port,
        "fleet.metrics_port": metrics_port,
    }
    settings = settings_of(context, file, flags)
    _run(run_gateway(settings, CLOCK, GatewayTold(tell_gateway_started, tell_gateway_ready, tell_draining)))


def worker(
    context: typer.Context,
    file: ConfigFile = None,
    name: Name = None,
    base: Annotated[str | None, typer.Option(help="To serve; else the only one there is.", show_default=False)] = None,
    control: ControlAddress = None,
    listen: Annotated[
        str | None, typer.Option(help="For gateways: unix:/PATH or tls://HOST:PORT.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run a worker: an agent with its engine. With a command: look after the workers that run."""
    if context.invoked_subcommand is not None:
        return
    flags = {
        "fleet.name": name,
        "fleet.base": base,
        "fleet.control": control,
        "fleet.listen": listen,
        "fleet.metrics_port": metrics_port,
        "engine.kind": engine,
    }
    settings = settings_of(context, file, flags)
    _run(run_worker(settings, CLOCK, WorkerTold(tell_worker_started, tell_ready, tell_draining)))


@holders.command("list")
def list_holders(context: typer.Context, json: Json = False) -> None:
    """List who holds snapshots, and whether each applies the newest."""
    with admin(context) as client:
        found = client.get("/holders")
    if json:
        print_json(found)
        return
    rows = [
        (
            each["role"],
            each["name"],
            each["epoch"] if each["epoch"] == found["epoch"] else f"{each['epoch']} of {found['epoch']}",
            f"{each['linked_for_s']:.0f} s",
            each["fence"] or None,
        )
        for each in found["holders"]
    ]
    print_table(_HOLDER_COLUMNS, rows, empty="No gateway or worker is there in a process of its own.")
    warn_unreached(found)


@holders.command("remove")
def remove_gateway(context: typer.Context, gateway: str, yes: Yes = False, json: Json = False) -> None:
    """Forget a gateway that is gone for good and did not say so; a worker is forgotten by `hotset worker remove`."""
    confirm(f"Forget gateway {gateway}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/gateways/{gateway}")
    if json:
        print_json(answer)
    else:
        say(f"Gateway {gateway} is forgotten.")


def _run(work: Coroutine[Any, Any, None]) -> None:
    configure(level=logging.INFO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
