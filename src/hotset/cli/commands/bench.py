"""``hotset bench``: comparisons that users can run on their own machines."""

from pathlib import Path
from typing import Annotated

import typer

from hotset.bench import engine, gateway, replay
from hotset.bench.workloads import LocalityShape, ServegenShape
from hotset.cli.commands import bench_scenarios, bench_simulated
from hotset.cli.output import warn
from hotset.cli.scenario_command import print_report
from hotset.cli.session import CLOCK, Json

app = typer.Typer(no_args_is_help=True, help="Measure Hotset beside others, in one interleaved run.")

Rounds = Annotated[int, typer.Option(min=1, help="How often each side is measured.")]
WithPeers = Annotated[bool, typer.Option("--peers/--no-peers", help="Measure beside the peers.")]
InstallPeers = Annotated[
    bool, typer.Option("--install-peers", help="Install missing peers, each into an environment of its own.")
]
PeersDir = Annotated[Path, typer.Option(help="Where the peers' environments lie.")]


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    bench_scenarios.register(app)
    bench_simulated.register(app)
    root.add_typer(app, name="bench")


@app.command("gateway")
def bench_gateway(
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(min=0.2, help="Counted seconds of each block.")] = 4.0,
    peers: WithPeers = True,
    install_peers: InstallPeers = False,
    peers_dir: PeersDir = Path(".peers"),
    profile: Annotated[bool, typer.Option("--profile", help="Say where Hotset's time goes.")] = False,
    json: Json = False,
) -> None:
    """Measure the tenant path: added latency, requests and streams a second, CPU time."""
    settings = gateway.Settings(
        rounds=rounds,
        seconds=seconds,
        with_peers=peers,
        install_peers=install_peers,
        peers_dir=peers_dir,
        profile=profile,
    )
    print_report(gateway.run(settings, warn), as_json=json)


@app.command("engine")
def bench_engine(
    base: Annotated[Path, typer.Option(help="The base model's folder.")],
    adapters: Annotated[Path | None, typer.Option(help="A folder of adapters to use first.")] = None,
    rounds: Rounds = 3,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of base and distinct batches, one after the other.")] = 8,
    new_tokens: Annotated[int, typer.Option(min=1, help="Tokens generated a row.")] = 48,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every side.")] = 2,
    peers: WithPeers = True,
    install_peers: InstallPeers = False,
    peers_dir: PeersDir = Path(".peers"),
    json: Json = False,
) -> None:
    """Measure the embedded engine: tokens a second with no, one and all distinct adapters."""
    settings = engine.Settings(
        base_folder=base,
        adapters_folder=adapters,
        rounds=rounds,
        pairs=pairs,
        new_tokens=new_tokens,
        num_threads=threads,
        with_peers=peers,
        install_peers=install_peers,
        peers_dir=peers_dir,
    )
    print_report(engine.run(settings, warn), as_json=json)


@app.command("replay")
def bench_replay(
    traces_dir: Annotated[
        Path | None, typer.Option(help="Folder of the trace files; without it, the locality mix runs alone.")
    ] = None,
    slots: Annotated[str, typer.Option(help="Slots of the worker; several counts with commas between.")] = "8,16",
    sight: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="Seconds of queue in sight, beside a replay without; 0 for none.")
    ] = replay.SIGHT_S,
    seeds: Annotated[int, typer.Option(min=1, help="Rounds, each with workloads drawn anew.")] = 5,
    hours: Annotated[float, typer.Option(min=0.2, max=336.0, help="Hours of ServeGen.")] = 2.0,
    start_hour: Annotated[
        float, typer.Option(min=0.0, max=336.0, help="Hour of ServeGen's recording to start at.")
    ] = 0.0,
    rate: Annotated[float, typer.Option(min=0.01, help="Requests a second of drawn workloads.")] = 20.0,
    pools: Annotated[str, typer.Option(help="ServeGen pools to mix in equal shares, with commas between.")] = ",".join(
        ServegenShape().pools
    ),
    tenant_adapters: Annotated[int, typer.Option(min=1, max=1000, help="Adapters of each ServeGen tenant.")] = 1,
    json: Json = False,
) -> None:
    """Replay request traces through residency policies: hits, loads, decision time."""
    shape = ServegenShape(
        pools=_names(pools), start_h=start_hour, hours=hours, rate=rate, adapters_per_tenant=tenant_adapters
    )
    settings = replay.Settings(
        traces_folder=traces_dir,
        slot_counts=_counts(slots),
        sight_s=sight,
        num_seeds=seeds,
        servegen=shape,
        locality=LocalityShape(rate=rate),
    )
    print_report(replay.run(settings, CLOCK, warn), as_json=json)


def _counts(text: str) -> tuple[int, ...]:
    """Return whole numbers above 0 in their order, each once."""
    parts = _names(text)
    if not parts or not all(part.isascii() and part.isdecimal() and 0 < int(part) < 10_000 for part in parts):
        raise typer.BadParameter("expected numbers from 1 to 9999 with commas between", param_hint="--slots")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
