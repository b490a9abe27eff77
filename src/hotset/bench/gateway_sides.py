"""The sides of the gateway bench, started and ready to be asked: the upstream itself, Hotset, each peer."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hotset.bench.children import Child, Nursery, free_port
from hotset.bench.load_job import Ask
from hotset.bench.peers import (
    LITELLM,
    VLLM_ROUTER,
    Installed,
    Peer,
    Start,
    find,
    install,
    start_litellm,
    start_vllm_router,
)
from hotset.bench.upstream import canned_text
from hotset.core.errors import EngineUnavailableError, NotFoundError
from hotset.core.ids import EngineName
from hotset.engines.instant import instant_text

DIRECT = "direct"
HOTSET = "hotset"
#: The upstream's models: whole answers at once, and a token at a time.
MODELS = ("base", "stepwise")
_START_TIMEOUT_S = 60.0
_PROMPT = "Say something short about the weather in the mountains, please."


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One (tenant, alias) that the target serves: the key to call with and the version that must answer."""

    token: str
    alias: str
    #: The engine brings one token a step.
    is_stepwise: bool
    engine_name: EngineName | None


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first line that the target says: where it listens and who may call."""

    port: int
    callers: tuple[Caller, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One side, ready to be asked."""

    name: str
    port: int
    #: None for a side whose processor time is not counted (the upstream).
    child: Child | None
    callers: tuple[Caller, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def asks(self, *, stream: bool, num_tokens: int, is_stepwise: bool = False) -> tuple[Ask, ...]:
        """Return the requests of this side, and the text that must answer each.

        Args:
            stream: Ask for streams.
            num_tokens: Tokens of each answer.
            is_stepwise: Ask where tokens come one by one rather than all at once.
        """
        if not self.callers:
            body = _body(MODELS[is_stepwise], stream=stream, num_tokens=num_tokens)
            text = canned_text(num_tokens)
            return (Ask(headers=dict(self.headers), body=body, expects=text, num_pieces=num_tokens),)
        return tuple(
            Ask(
                headers={"Authorization": f"Bearer {caller.token}"},
                body=_body(caller.alias, stream=stream, num_tokens=num_tokens),
                expects="".join(instant_text(caller.engine_name, position) for position in range(num_tokens)),
                num_pieces=num_tokens,
            )
            for caller in self.callers
            if caller.is_stepwise == is_stepwise
        )


def _body(model: str, *, stream: bool, num_tokens: int) -> str:
    messages = [{"role": "user", "content": _PROMPT}]
    body = {"model": model, "messages": messages, "max_tokens": num_tokens, "stream": stream}
    return msgspec.json.encode(body).decode()


def start_upstream(nursery: Nursery, *, num_tokens: int, num_chunks: int) -> Side:
    """Start the canned upstream."""
    counts = ["--tokens", str(num_tokens), "--chunks", str(num_chunks)]
    child = nursery.start("upstream", [sys.executable, "-m", "hotset.bench.upstream", *counts], talks=True)
    return Side(DIRECT, int(child.read_line(_START_TIMEOUT_S)), None)


def start_hotset(nursery: Nursery) -> Side:
    """Start the target: Hotset's own tenant plane and agent over the instant engine."""
    child = nursery.start("hotset", [sys.executable, "-m", "hotset.bench.target"], talks=True)
    hello = msgspec.json.decode(child.read_line(_START_TIMEOUT_S), type=Hello)
    return Side(HOTSET, hello.port, child, callers=hello.callers)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Where peers are looked for, and whether missing ones are installed."""

    peers_dir: Path
    requirements_dir: Path
    install_peers: bool


def start_peer(
    nursery: Nursery, peer: Peer, upstream_port: int, settings: PeerSettings, say: Callable[[str], None]
) -> Side | str:
    """Start one peer in front of the upstream, or return why it is not there."""
    try:
        installed = find_or_install(peer, settings, say)
        port = free_port()
        start = _start_of(installed, upstream_port, port, nursery.folder)
        child = nursery.start(peer.name, start.command)
        nursery.wait_http(child, port, start.health_path, _START_TIMEOUT_S)
    except (NotFoundError, EngineUnavailableError) as error:
        say(f"{peer.name}: {error.message}")
        return error.message
    return Side(f"{peer.name} {peer.version}", port, child, headers=tuple(start.headers.items()))


def find_or_install(peer: Peer, settings: PeerSettings, say: Callable[[str], None]) -> Installed:
    """Return the peer's environment, making it first where that was asked for.

    Raises:
        NotFoundError: it isn't there and can't be made.
    """
    try:
        return find(peer, settings.peers_dir)
    except NotFoundError:
        if not settings.install_peers:
            raise
    return install(peer, settings.peers_dir, settings.requirements_dir, say)


def _start_of(peer: Installed, upstream_port: int, port: int, folder: Path) -> Start:
    if peer.peer is VLLM_ROUTER:
        return start_vllm_router(peer, upstream_port, port, free_port())
    assert peer.peer is LITELLM
    return start_litellm(peer, upstream_port, port, MODELS, folder)
