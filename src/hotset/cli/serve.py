"""`hotset serve`: tenant plane, operator plane and agents in one process, from start to drained end.

The state folder's lock is held throughout, so whatever a killed server left (sockets, staging, address file) is ours to
replace. Listeners open before engines serve; `/readyz` tells when they do.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from hotset.cli.listening import QuietServer, address_of, admin_server, bind_tcp, bind_unix
from hotset.cli.running import Addresses, drain, read_addresses_at, serving, stop_on_signals, stop_with_input
from hotset.cli.settings import Settings
from hotset.cli.wiring import EnginePool, make_control, make_job_book
from hotset.control.actors import LOCAL_ADMIN
from hotset.control.api import build_admin_app
from hotset.control.control import Control
from hotset.control.declaring import Declared, declare
from hotset.control.fleet_numbers import fleet_numbers
from hotset.control.witnesses import OwnProcess
from hotset.core.clock import Clock
from hotset.core.ids import RequestId
from hotset.core.on_call import RequestEntry
from hotset.gateway.app import TenantApp, build_tenant_app
from hotset.gateway.server import server_config
from hotset.storage.state_folder import StateFolder
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog, find_in

ADDRESS_FILE = "server.json"


@dataclass(frozen=True)
class Started:
    """What a server has to say once it listens."""

    addresses: Addresses
    settings: Settings
    #: The first admin token, the one time there is one.
    first_token: str | None


@dataclass(frozen=True)
class Told:
    """Whom a server tells how it is getting on."""

    started: Callable[[Started], None]
    declared: Callable[[Declared], None]
    ready: Callable[[list[str]], None]
    draining: Callable[[int], None]


class Server:
    """Everything that runs while a server serves."""

    def __init__(self, settings: Settings, folder: StateFolder, clock: Clock) -> None:
        self.settings = settings
        self.folder = folder
        self.clock = clock
        self.control: Control = make_control(settings, folder, clock)
        self.metrics = Metrics(clock)
        self.request_log = RequestLog(folder.logs / "requests.jsonl")
        self.pool = EnginePool(settings, folder, clock, self.metrics)
        self.jobs = make_job_book(settings, folder, self.metrics)
        self._upkeep: list[asyncio.Task[None]] = []
        self.metrics.measures.fleet = lambda: fleet_numbers(self.control, clock)
        self.tenant_app: TenantApp = build_tenant_app(
            settings.gateway,
            self.pool.agents,
            clock=clock,
            metrics=self.metrics,
            request_log=self.request_log,
            cache_salt_secret=folder.cache_salt_key(),
            jobs=self.jobs,
        )

    async def open(self) -> str | None:
        """Open control and give every holder the first snapshot; return the first admin token, if one was made."""
        opened = await self.control.open()
        # Agents first: what a gateway routes to, its agent already knows.
        self.control.add_holder(self.pool)
        self.control.add_holder(self.tenant_app)
        self.control.add_viewer(self.pool)
        self.control.witness = OwnProcess(self._look_up, activity=self.metrics.activity, recall=self.pool.recall)
        self.control.usage.books.append(self.metrics.usage)
        self.control.suspects.sources.append(self.pool)
        self._upkeep = [asyncio.create_task(each) for each in (self.control.usage.keep(), self.control.suspects.run())]
        return opened.first_token

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Addresses]:
        """Serve all three listeners for the length of the block.

        Raises:
            ConfigError: an address can't be listened on.
        """
        where = self.settings.server
        tenant = bind_tcp(where.tenant_host, where.tenant_port, "server.tenant_port")
        admin = bind_tcp(where.admin_host, where.admin_port, "server.admin_port")
        local = bind_unix(self.folder.admin_socket)
        tenant_server = QuietServer(server_config(self.tenant_app, self.settings.gateway, host="", port=0))
        servers = [
            (tenant_server, tenant),
            (admin_server(self._admin_app(is_local=False)), admin),
            (admin_server(self._admin_app(is_local=True)), local),
        ]
        addresses = Addresses(address_of(tenant), address_of(admin), os.getpid())
        async with serving(servers):
            with addresses.written(self.folder.run / ADDRESS_FILE):
                yield addresses
        self.folder.admin_socket.unlink(missing_ok=True)

    async def drain(self, told: Told) -> None:
        """Take no new requests; let what runs finish within `worker.drain_timeout_s`, then end it."""
        self.tenant_app.begin_shutdown()
        told.draining(self.tenant_app.num_in_flight)
        await drain(self.tenant_app, self.settings.worker.drain_timeout_s)

    async def close(self) -> None:
        """End engines, jobs, control and the request log; usage is written up to here."""
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        await self.pool.stop()
        if self._upkeep:
            await self.control.usage.write()
        await asyncio.to_thread(self.jobs.transactions.close)
        await self.control.close()
        await asyncio.to_thread(self.request_log.close)

    def _admin_app(self, *, is_local: bool) -> Starlette:
        return build_admin_app(self.control, lambda: self.metrics.text().decode(), is_local=is_local)

    def _look_up(self, request_id: RequestId) -> tuple[str | None, RequestEntry] | None:
        self.request_log.flush()
        return find_in(self.folder.logs, request_id)


async def serve(settings: Settings, clock: Clock, told: Told, *, until_input_ends: bool = False) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Args:
        settings: Of this server.
        clock: Where time comes from.
        told: Hears how far it is.
        until_input_ends: Drain also once standard input ends.

    Raises:
        StateLockedError: another process holds the state folder.
        ConfigError: an address can't be listened on, or a key file is damaged.
    """
    folder = StateFolder(settings.home)
    with folder.locked():
        folder.initialise()
        server = Server(settings, folder, clock)
        stop = stop_on_signals()
        if until_input_ends:
            stop_with_input(stop)
        try:
            first_token = await server.open()
            async with server.listening() as addresses:
                told.started(Started(addresses, settings, first_token))
                declaring = asyncio.create_task(_declare(server, told))
                await stop.wait()
                declaring.cancel()
                await asyncio.gather(declaring, return_exceptions=True)
                await server.drain(told)
        finally:
            await server.close()


async def _declare(server: Server, told: Told) -> None:
    told.declared(await declare(server.control, LOCAL_ADMIN, server.settings.desired))
    told.ready(await server.pool.wait_ready())


def read_addresses(home: Path) -> Addresses | None:
    """Return where the server over this state folder says that it listens, None where none says so."""
    return read_addresses_at(StateFolder(home).run / ADDRESS_FILE)
