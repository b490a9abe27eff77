"""What every process that serves does alike: listen, say where, heed signals, drain."""

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotset.cli.listening import QuietServer
from hotset.gateway.app import TenantApp

_log = logging.getLogger(__name__)
_DRAIN_POLL_S = 0.05


@dataclass(frozen=True)
class Addresses:
    """Where a process is reached; empty where it has no such plane."""

    tenant_url: str
    admin_url: str
    pid: int

    @contextlib.contextmanager
    def written(self, path: Path) -> Generator[None]:
        """Have them in a file for the length of the block, for commands that look for the process."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self.__dict__))
        part.replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def read_addresses_at(path: Path) -> Addresses | None:
    """Return the addresses in a file; None where there is none, or nothing that can be read."""
    try:
        return Addresses(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.asynccontextmanager
async def serving(servers: Sequence[tuple[QuietServer, socket.socket]]) -> AsyncIterator[None]:
    """Serve on bound sockets for the length of the block.

    What was made before stays as long, so the garbage collector leaves it out: to look through it all would stop every
    request for tens of milliseconds, time and again.
    """
    tasks = [asyncio.create_task(_serve(server, bound)) for server, bound in servers]
    for task in tasks:
        task.add_done_callback(report_end)
    try:
        await asyncio.gather(*(server.has_started.wait() for server, _ in servers))
        gc.freeze()
        yield
    finally:
        gc.unfreeze()
        for server, _ in servers:
            server.should_exit = True
        await asyncio.gather(*tasks)


async def drain(app: TenantApp, timeout_s: float) -> None:
    """Let what runs at a tenant plane that takes no more finish within the time, then end it."""
    app.begin_shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while app.num_in_flight:  # noqa: ASYNC110 - nobody on the hot path should have to tell us
                await asyncio.sleep(_DRAIN_POLL_S)
    app.stop_running()


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)  # engines see their connection close, and end too
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return stop


def stop_with_input(stop: asyncio.Event) -> None:
    """Set an event once standard input ends, as it does when whoever holds its other end dies, however that happens."""
    loop, read_end = asyncio.get_running_loop(), sys.stdin.fileno()

    def on_input() -> None:
        if not os.read(read_end, 4096):
            loop.remove_reader(read_end)
            stop.set()

    loop.add_reader(read_end, on_input)


@contextlib.asynccontextmanager
async def in_background(*tasks: asyncio.Task[None]) -> AsyncIterator[None]:
    """Run tasks for the length of the block, and end them after it; one that ends by itself is told loudly."""
    for task in tasks:
        task.add_done_callback(report_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def report_end(task: asyncio.Task[None]) -> None:
    """Tell loudly of a task that should not have ended."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("%s ended by itself", task.get_name(), exc_info=error)


async def _serve(server: QuietServer, bound: socket.socket) -> None:
    try:
        await server.serve(sockets=[bound])
    finally:
        bound.close()
