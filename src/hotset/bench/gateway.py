"""`hotset bench gateway`: what Hotset's whole tenant path costs, beside other gateways.

One interleaved run: every side answers the same requests with the same texts. *direct* is the canned
upstream that the peers relay to, asked without anything between; a side's *added* latency is its own less
direct's at the same load in the same round. Hotset runs with everything on (keys, tenants, aliases to
adapters, leases, limits, request log, metrics), and its hop to the engine process is paid as the peers pay
theirs to the upstream.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hotset.bench.children import Nursery
from hotset.bench.gateway_report import Measured, build_report
from hotset.bench.gateway_sides import (
    HOTSET,
    PeerSettings,
    Side,
    start_hotset,
    start_peer,
    start_upstream,
)
from hotset.bench.load_job import Job, Outcome
from hotset.bench.peers import GATEWAY_PEERS
from hotset.bench.procfs import CpuTime, machine_words, tree_cpu
from hotset.bench.report import Report
from hotset.bench.rounds import Outcomes, interleave
from hotset.core.clock import SystemClock
from hotset.core.errors import EngineUnavailableError

_CONNECTIONS_OPEN = 64
_LOAD_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    rounds: int = 3
    #: Counted seconds of each block.
    seconds: float = 4.0
    warmup_s: float = 0.5
    #: Requests a second of the open loop.
    rate: float = 300.0
    #: Tokens of an answer without a stream.
    answer_tokens: int = 8
    #: Chunks of a stream.
    num_chunks: int = 50
    #: Measure beside the peers; without them, only direct and Hotset run.
    with_peers: bool = True
    install_peers: bool = False
    peers_dir: Path = Path(".peers")
    requirements_dir: Path = Path("requirements")
    #: After the run, profile Hotset under the same loads and append where its time goes.
    profile: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of load."""

    name: str
    stream: bool
    connections: int
    rate: float | None = None
    is_stepwise: bool = False


def loads(settings: Settings) -> dict[str, Load]:
    """Return the loads of a run, by name."""
    kinds = (
        Load("open", stream=False, connections=_CONNECTIONS_OPEN, rate=settings.rate),
        Load("c8", stream=False, connections=8),
        Load("c32", stream=False, connections=32),
        Load("sse8", stream=True, connections=8),
        Load("steps8", stream=True, connections=8, is_stepwise=True),
    )
    return {load.name: load for load in kinds}


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run the whole comparison.

    Args:
        settings: What to run.
        say: Takes one line of progress at a time.

    Raises:
        EngineUnavailableError: the upstream, Hotset or the load generator did not run.
    """
    setting = {"machine": machine_words(), **settings_words(settings)}
    with (
        tempfile.TemporaryDirectory(prefix="hotset-bench-") as folder,
        Nursery(Path(folder), SystemClock()) as nursery,
    ):
        sides, absent = _start(nursery, settings, say)
        outcomes = _measure(sides, settings, say)
        appendix = _profile(sides[HOTSET], settings, say) if settings.profile else ""
    return build_report(tuple(sides), absent, outcomes, setting, appendix=appendix)


def settings_words(settings: Settings) -> dict[str, str]:
    """Return the settings of a run, as words for its report."""
    return {
        "rounds": f"{settings.rounds}, {settings.seconds:g} s a block, sides interleaved",
        "load": f"open loop {settings.rate:g} requests/s; closed loops of 8 and 32 connections; loopback",
        "answers": f"{settings.answer_tokens} tokens without a stream, {settings.num_chunks} chunks with one",
    }


def _start(nursery: Nursery, settings: Settings, say: Callable[[str], None]) -> tuple[dict[str, Side], dict[str, str]]:
    """Return the sides that are up, in the order of a round, and why others are not."""
    upstream = start_upstream(nursery, num_tokens=settings.answer_tokens, num_chunks=settings.num_chunks)
    hotset = start_hotset(nursery)
    sides, absent = {upstream.name: upstream, hotset.name: hotset}, {}
    peer_settings = PeerSettings(settings.peers_dir.absolute(), settings.requirements_dir, settings.install_peers)
    for peer in GATEWAY_PEERS if settings.with_peers else ():
        say(f"starting {peer.name} {peer.version}")
        side = start_peer(nursery, peer, upstream.port, peer_settings, say)
        if isinstance(side, Side):
            sides[side.name] = side
        else:
            absent[f"{peer.name} {peer.version}"] = side
    return sides, absent


def _measure(sides: dict[str, Side], settings: Settings, say: Callable[[str], None]) -> Outcomes[Measured]:
    kinds, outcomes = loads(settings), Outcomes[Measured]()
    for block in interleave(list(sides), list(kinds), settings.rounds):
        measured = measure(sides[block.side], kinds[block.load], settings)
        outcomes.add(block, measured)
        say(f"round {block.round + 1} {block.load} {block.side}: {measured.outcome.per_second:,.0f}/s")
    return outcomes


def measure(side: Side, load: Load, settings: Settings) -> Measured:
    """Run one block of load against one side and count the side's processor time.

    Raises:
        EngineUnavailableError: the load generator failed, with its last words.
    """
    num_tokens = settings.num_chunks if load.stream else settings.answer_tokens
    job = Job(
        host="127.0.0.1",
        port=side.port,
        path="/v1/chat/completions",
        asks=side.asks(stream=load.stream, num_tokens=num_tokens, is_stepwise=load.is_stepwise),
        stream=load.stream,
        connections=load.connections,
        duration_s=settings.seconds,
        warmup_s=settings.warmup_s,
        rate=load.rate,
    )
    before = _cpu(side)
    ended = subprocess.run(
        [sys.executable, "-m", "hotset.bench.load"],
        input=msgspec.json.encode(job),
        capture_output=True,
        timeout=_LOAD_TIMEOUT_S,
        check=False,
    )
    if ended.returncode:
        raise EngineUnavailableError(f"the load generator failed: {ended.stderr.decode(errors='replace')[-800:]}")
    return Measured(msgspec.json.decode(ended.stdout, type=Outcome), _cpu(side).since(before))


def _cpu(side: Side) -> CpuTime:
    return CpuTime(0.0, 0.0) if side.child is None else tree_cpu(side.child.pid)


def _profile(side: Side, settings: Settings, say: Callable[[str], None]) -> str:
    """Run two loads against Hotset under a profiler and return where its own process spent its time."""
    assert side.child is not None
    texts: list[str] = []
    for name in ("c8", "sse8", "steps8"):
        say(f"profiling {name}")
        side.child.send_line(b"profile")
        side.child.read_line(_LOAD_TIMEOUT_S)
        measured = measure(side, loads(settings)[name], settings)
        side.child.send_line(b"report")
        text = msgspec.json.decode(side.child.read_line(_LOAD_TIMEOUT_S), type=str)
        texts.append(f"{name}: {measured.outcome.num_answered} answers under the profiler\n{text}")
    return "\n".join(texts)
