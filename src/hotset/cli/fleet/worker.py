"""`hotset worker`: one agent with its engine, for the gateways of the fleet."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from hotset.cli.fleet.metrics_page import metrics_servers
from hotset.cli.fleet.place import Place, place_of
from hotset.cli.listening import address_of
from hotset.cli.running import Addresses, in_background, serving, stop_on_signals
from hotset.cli.settings import Settings
from hotset.cli.wiring import AgentParts, BaseFolders
from hotset.core.base import BaseVersion
from hotset.core.clock import Clock
from hotset.core.ids import WorkerId, parse_base_name, parse_pool
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.control_link import ControlLink
from hotset.links.usage_outbox import UsageOutbox
from hotset.storage.blobs import BlobStore
from hotset.storage.kept_blobs import KeptBlobs
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.blob_fetch import BlobFetcher
from hotset.worker.door import WorkerDoor
from hotset.worker.membership import Membership

_log = logging.getLogger(__name__)

#: How long gateways may still read what their requests came to, once the engine of a worker that ends is done.
_LAST_WORDS_S = 10.0


@dataclass(frozen=True)
class WorkerTold:
    """Whom a worker tells how it is getting on."""

    #: Its place and the address of its metrics, empty where it has none.
    started: Callable[[Place, str], None]
    ready: Callable[[list[str]], None]
    draining: Callable[[int], None]


class WorkerServer:
    """Everything that runs while a worker serves."""

    def __init__(self, settings: Settings, place: Place, clock: Clock) -> None:
        self._settings = settings
        self._place = place
        self._metrics = Metrics(clock)
        #: What was last said to be missing before there can be an agent.
        self._told_lacking = ""
        declared = {base.name: base.folder for base in settings.desired.bases}
        self._folders = BaseFolders(place.folder, declared)
        self._blobs = BlobFetcher(
            BlobStore(place.folder.blobs),
            KeptBlobs(place.own.blobs, settings.worker.fetched_bytes_max),
            me=place.me,
            address=place.control,
            tls=place.tls,
            clock=clock,
            on_fetch=self._metrics.blob_fetched,
        )
        self._parts = AgentParts(settings, place.folder, self._folders, clock, self._metrics, self._blobs)
        self._base_name = parse_base_name(settings.fleet.base) if settings.fleet.base else None
        self._usage = UsageOutbox(self._metrics.usage, place.own.usage, clock, stream=place.instance)
        self._member = Membership(
            WorkerId(place.me.name),
            instance=place.instance,
            fences=place.own,
            kept=place.own.snapshot,
            usage=self._usage,
            metrics=self._metrics,
            make_agent=self._make_agent,
            pool=parse_pool(settings.fleet.pool) if settings.fleet.pool else None,
            clock=clock,
        )
        self._control = ControlLink(place.control, self._member, clock=clock, tls=place.tls)

    async def run(self, told: WorkerTold, stop: asyncio.Event) -> None:
        """Serve until told to stop, then let what runs finish.

        Raises:
            ConfigError: an address can't be listened on.
        """
        await asyncio.to_thread(self._blobs.begin)
        self._blobs.grants_from(self._control)
        await self._member.begin(self._control)
        pages = metrics_servers(self._settings, self._metrics, self._is_ready)
        addresses = Addresses("", address_of(pages[0][1]) if pages else "", os.getpid())
        link = asyncio.create_task(self._control.run(), name="link to control")
        telling = asyncio.create_task(self._member.run(), name="heartbeat")
        counting = asyncio.create_task(self._usage.run(), name="usage")
        async with serving(pages), in_background(link, telling, counting):
            with addresses.written(self._place.address_file):
                told.started(self._place, addresses.admin_url)
                agent = await self._agent_or_stop(stop)
                if agent is not None:
                    await self._serve(agent, told, stop)
                await self._member.say_goodbye()

    async def close(self) -> None:
        """Keep what is to be kept."""
        self._blobs.stop()
        await self._member.settle()
        self._folders.close()

    async def _serve(self, agent: LocalAgent, told: WorkerTold, stop: asyncio.Event) -> None:
        """Let gateways in until told to stop, then drain."""
        member, place = self._member, self._place
        door = WorkerDoor(agent, member.worker, agent.base.digest, fence=member.fence, beat=member.heartbeat)
        address = await door.open(place.listen, place.tls, "fleet.listen")
        member.open_to(door, str(address))
        life = asyncio.create_task(agent.run(), name=f"agent of {agent.base.name}")
        ready = asyncio.create_task(_tell_ready(agent, told), name="readiness")
        try:
            async with in_background(ready):
                await stop.wait()
            told.draining(agent.num_leases())
        finally:
            stopping = asyncio.create_task(agent.stop())
            await asyncio.sleep(0)
            member.tell_leaving()
            await stopping
            with contextlib.suppress(asyncio.CancelledError):
                await life
            await door.close(patience_s=_LAST_WORDS_S)

    async def _agent_or_stop(self, stop: asyncio.Event) -> LocalAgent | None:
        """Return the agent once a snapshot has its base; None where the process is to stop before."""
        stopped = asyncio.create_task(stop.wait())
        made = asyncio.create_task(self._member.has_agent.wait())
        await asyncio.wait({stopped, made}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        made.cancel()
        return None if stop.is_set() else self._member.agent

    def _make_agent(self, snapshot: RoutingSnapshot) -> LocalAgent | None:
        base = self._base_in(snapshot)
        if base is None:
            return None
        place = self._place
        return self._parts.agent(base, place.own.store, place.folder.reviewer_keys(), self._member.worker)

    def _base_in(self, snapshot: RoutingSnapshot) -> BaseVersion | None:
        """Return the base to serve: the one named, or the only one there is."""
        named = [base for base in snapshot.bases.values() if self._base_name in (None, base.name)]
        if len(named) == 1:
            return named[0]
        if (lacking := _lacking(self._base_name, snapshot)) != self._told_lacking:
            _log.warning(lacking)
            self._told_lacking = lacking
        return None

    def _is_ready(self) -> bool:
        agent = self._member.agent
        return agent is not None and agent.is_ready() and self._member.fence() > 0


def _lacking(base_name: str | None, snapshot: RoutingSnapshot) -> str:
    """Return why a worker can't tell its base from a snapshot, and what helps."""
    known = sorted({base.name for base in snapshot.bases.values()})
    if base_name is None and known:
        return f"control has several bases ({', '.join(known)}): end this worker and name one with --base"
    return f"control has no base{f' {base_name}' if base_name else ''} yet (hotset base add); waiting for it"


async def _tell_ready(agent: LocalAgent, told: WorkerTold) -> None:
    await agent.wait_ready()
    told.ready([agent.base.name])


async def run_worker(settings: Settings, clock: Clock, told: WorkerTold) -> None:
    """Run a worker until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Raises:
        StateLockedError: another worker has this name here.
        ConfigError: an address can't be listened on, or a setting is not valid.
        InvalidNameError: the base or the pool has no valid name.
    """
    place = place_of(settings, "worker")
    place.folder.prepare()
    with place.own.locked():
        server = WorkerServer(settings, place, clock)
        try:
            await server.run(told, stop_on_signals())
        finally:
            await server.close()
