"""A gateway's place in a fleet: which snapshot it applies, and for how long it goes on while control is away."""

import asyncio

from hotset.core.clock import Clock
from hotset.core.ids import RequestId
from hotset.core.on_call import RequestEntry
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.app import TenantApp
from hotset.gateway.workers import RemoteWorkers
from hotset.links.control_link import ControlLink
from hotset.links.holder_messages import (
    ActivityTold,
    Ask,
    AskActivity,
    AskRequest,
    AskUsage,
    Leaving,
    Register,
    RequestTold,
    Told,
    UsageTold,
)
from hotset.links.peers import Peer
from hotset.links.usage_outbox import UsageOutbox
from hotset.links.worker_messages import PROTOCOL
from hotset.storage.kept_snapshot import KeptSnapshot, SnapshotKeeper
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog, find

_CONFIRM_S = 10.0


class GatewayMember:
    """Implements `links.control_link.Holder` for one gateway."""

    def __init__(
        self,
        me: Peer,
        app: TenantApp,
        workers: RemoteWorkers,
        kept: KeptSnapshot,
        usage: UsageOutbox,
        metrics: Metrics,
        request_log: RequestLog,
        *,
        instance: str,
        snapshot_age_max_s: float,
        clock: Clock,
    ) -> None:
        """Prepare; `begin` takes what was kept.

        Args:
            me: The gateway.
            app: Its tenant plane.
            workers: The workers it knows.
            kept: Keeps the snapshot from one start to the next.
            usage: Tells control what tenants use here.
            metrics: Of this process.
            request_log: Of this process.
            instance: Of this start of the process.
            snapshot_age_max_s: For how long it serves while control is away.
            clock: Where time comes from.
        """
        self._me = me
        self._app = app
        self._workers = workers
        self._kept = kept
        self._keeper = SnapshotKeeper(kept)
        self._usage = usage
        self._metrics = metrics
        self._request_log = request_log
        self._instance = instance
        self._snapshot_age_max_s = snapshot_age_max_s
        self._clock = clock
        self._control: ControlLink | None = None
        #: How old the kept snapshot was at the start; 0 once control was there.
        self._age_at_start_s = 0.0
        app.outdated_by(self.is_outdated)

    async def begin(self, control: ControlLink) -> None:
        """Take the snapshot that was kept, with which it serves until control is there."""
        self._control = control
        await self._usage.begin(control.send, lambda: control.is_registered)
        snapshot = await asyncio.to_thread(self._kept.read)
        confirmed_at_s = await asyncio.to_thread(self._kept.confirmed_at_s)
        if snapshot is not None and confirmed_at_s is not None:
            self._age_at_start_s = max(0.0, self._clock.wall_s() - confirmed_at_s)
            self._use(snapshot)

    def is_outdated(self) -> bool:
        """Whether control was away for too long, or never there."""
        if self._control is None or not self._app.snapshot.epoch:
            return True
        return self._control.silence_s() + self._age_at_start_s > self._snapshot_age_max_s

    async def run(self) -> None:
        """Note from time to time that control is there, until cancelled."""
        while True:
            await asyncio.sleep(_CONFIRM_S)
            if self._control is not None and self._control.is_registered:
                await asyncio.to_thread(self._kept.confirm, self._clock.wall_s())

    async def say_goodbye(self) -> None:
        """Tell control what was used up to here, and that nothing follows; what it does not hear is kept."""
        if await self._usage.settle() and self._control is not None:
            self._control.send(Leaving())

    async def leave(self) -> None:
        """Return once what is to be kept is kept."""
        await self._keeper.settle()

    # --- what control says -----------------------------------------------------------------------------

    def registering(self) -> Register:
        """Return how to register now."""
        return Register(PROTOCOL, self._me, self._instance)

    def registered(self) -> None:
        """Control takes us."""
        self._age_at_start_s = 0.0
        self._usage.linked()

    def rejected(self, code: str, message: str) -> None:
        """Control does not take us: the snapshot ages."""

    def fenced(self, fence: int) -> None:
        """Gateways have no fence: any of them may send to a worker."""

    def apply(self, snapshot: RoutingSnapshot) -> int:
        """Use this snapshot from now on, and keep it; return the epoch in use, as older ones are ignored."""
        self._use(snapshot)
        self._keeper.offer(self._app.snapshot)
        return self._app.snapshot.epoch

    def usage_kept(self, stream: str, number: int) -> None:
        """Control counts this stream up to this number."""
        self._usage.kept(stream, number)

    async def answer(self, ask: Ask) -> Told:
        """Return what control asks for; of a request what its log's line says."""
        match ask:
            case AskActivity(number):
                return ActivityTold(number, self._metrics.activity())
            case AskRequest(number, request):
                return RequestTold(number, entry=await asyncio.to_thread(self._look_up, request))
            case AskUsage(number):
                return UsageTold(number, await self._usage.settle())

    def _look_up(self, request: RequestId) -> RequestEntry | None:
        self._request_log.flush()
        return find(self._request_log.path, request)

    def _use(self, snapshot: RoutingSnapshot) -> None:
        # Workers first: what is routed to is known then.
        self._workers.apply(snapshot)
        self._app.apply(snapshot)
