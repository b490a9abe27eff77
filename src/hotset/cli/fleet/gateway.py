"""`hotset gateway`: the tenant plane over workers in other processes."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from hotset.cli.fleet.metrics_page import metrics_servers
from hotset.cli.fleet.place import Place, place_of
from hotset.cli.listening import QuietServer, address_of, bind_tcp
from hotset.cli.running import Addresses, drain, in_background, serving, stop_on_signals
from hotset.cli.settings import Settings
from hotset.cli.wiring import make_job_book
from hotset.core.clock import Clock
from hotset.gateway.app import build_tenant_app
from hotset.gateway.member import GatewayMember
from hotset.gateway.server import server_config
from hotset.gateway.workers import RemoteWorkers
from hotset.links.address import UnixAddress
from hotset.links.control_link import ControlLink
from hotset.links.usage_outbox import UsageOutbox
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog

_log = logging.getLogger(__name__)
_INITIALISED_POLL_S = 0.2
_READY_POLL_S = 0.1


@dataclass(frozen=True)
class GatewayTold:
    """Whom a gateway tells how it is getting on."""

    #: Its place, its tenant plane's address and that of its metrics, empty where it has none.
    started: Callable[[Place, str, str], None]
    ready: Callable[[], None]
    draining: Callable[[int], None]


class GatewayServer:
    """Everything that runs while a gateway serves."""

    def __init__(self, settings: Settings, place: Place, clock: Clock) -> None:
        self._settings = settings
        self._place = place
        self._metrics = Metrics(clock)
        self._request_log = RequestLog(place.folder.logs / f"requests-{place.me.name}.jsonl")
        self._workers = RemoteWorkers(place.me, clock, place.tls)
        # Jobs live in control's database: a gateway on another machine takes none.
        self._jobs = make_job_book(settings, place.folder, self._metrics) if place.folder.is_initialised else None
        self._app = build_tenant_app(
            settings.gateway,
            self._workers.agents,
            clock=clock,
            metrics=self._metrics,
            request_log=self._request_log,
            cache_salt_secret=place.folder.cache_salt_key(),
            jobs=self._jobs,
        )
        self._usage = UsageOutbox(self._metrics.usage, place.own.usage, clock, stream=place.instance)
        self._member = GatewayMember(
            place.me,
            self._app,
            self._workers,
            place.own.snapshot,
            self._usage,
            self._metrics,
            self._request_log,
            instance=place.instance,
            snapshot_age_max_s=settings.gateway.snapshot_age_max_s,
            clock=clock,
        )
        self._control = ControlLink(place.control, self._member, clock=clock, tls=place.tls)

    async def run(self, told: GatewayTold, stop: asyncio.Event) -> None:
        """Serve until told to stop, then let what runs finish.

        Raises:
            ConfigError: an address can't be listened on.
        """
        where, settings = self._settings.server, self._settings
        await self._member.begin(self._control)
        tenant = bind_tcp(where.tenant_host, where.tenant_port, "server.tenant_port")
        pages = metrics_servers(settings, self._metrics, lambda: self._app.is_ready)
        server = QuietServer(server_config(self._app, settings.gateway, host="", port=0))
        addresses = Addresses(address_of(tenant), address_of(pages[0][1]) if pages else "", os.getpid())
        link = asyncio.create_task(self._control.run(), name="link to control")
        keeping = asyncio.create_task(self._member.run(), name="snapshot's age")
        telling = asyncio.create_task(self._usage.run(), name="usage")
        async with serving([(server, tenant), *pages]), in_background(link, keeping, telling):
            with addresses.written(self._place.address_file):
                told.started(self._place, addresses.tenant_url, addresses.admin_url)
                async with in_background(asyncio.create_task(self._tell_ready(told), name="readiness")):
                    await stop.wait()
                told.draining(self._app.num_in_flight)
                await drain(self._app, settings.worker.drain_timeout_s)
                await self._member.say_goodbye()

    async def _tell_ready(self, told: GatewayTold) -> None:
        while not self._app.is_ready:  # noqa: ASYNC110 - what makes it ready comes from several sides
            await asyncio.sleep(_READY_POLL_S)
        told.ready()

    async def close(self) -> None:
        """End links and log."""
        await self._workers.stop()
        await self._member.leave()
        if self._jobs is not None:
            await asyncio.to_thread(self._jobs.transactions.close)
        await asyncio.to_thread(self._request_log.close)


async def _until_initialised(place: Place, stop: asyncio.Event) -> bool:
    """Wait, where control is to run over the same folder, until it did once; return whether to go on."""
    is_told = False
    while isinstance(place.control, UnixAddress) and not place.folder.is_initialised and not stop.is_set():
        if not is_told:
            _log.info("waiting for control to begin over %s", place.folder.path)
            is_told = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_INITIALISED_POLL_S):
                await stop.wait()
    return not stop.is_set()


async def run_gateway(settings: Settings, clock: Clock, told: GatewayTold) -> None:
    """Run a gateway until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Raises:
        StateLockedError: another gateway has this name here.
        ConfigError: an address can't be listened on, or a setting is not valid.
    """
    place = place_of(settings, "gateway")
    place.folder.prepare()
    with place.own.locked():
        stop = stop_on_signals()
        if not await _until_initialised(place, stop):
            return
        server = GatewayServer(settings, place, clock)
        try:
            await server.run(told, stop)
        finally:
            await server.close()
