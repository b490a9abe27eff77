"""A worker's place in a fleet: which identity it holds, which snapshot it applies, whom its door lets in.

It serves under the fence that control gives it. Started while control is away, it goes on under the last one that its
folder keeps, from the last snapshot; one that control rejects serves nothing, and asks again.
"""

import asyncio
import logging
from collections.abc import Callable

from hotset.core.clock import Clock
from hotset.core.fleet import Heartbeat, WorkerFacts
from hotset.core.ids import PoolName, WorkerId
from hotset.core.messages import EngineFacts
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.control_link import ControlLink
from hotset.links.holder_messages import (
    ActivityTold,
    Ask,
    AskActivity,
    AskRequest,
    AskUsage,
    BeatNow,
    FactsNow,
    Register,
    RequestTold,
    Told,
    UsageTold,
)
from hotset.links.peers import Peer
from hotset.links.usage_outbox import UsageOutbox
from hotset.links.worker_messages import PROTOCOL
from hotset.routing.identity import may_serve_alone
from hotset.storage.kept_snapshot import KeptSnapshot, SnapshotKeeper
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.door import WorkerDoor
from hotset.worker.fence_keeper import FenceKeeper, KeptFence

_log = logging.getLogger(__name__)
_BEAT_S = 1.0
#: After its start a worker waits so long for control before it serves under the fence that it kept.
_PATIENCE_S = 2.0


class Membership:
    """Implements `links.control_link.Holder` for one worker."""

    def __init__(
        self,
        worker: WorkerId,
        *,
        instance: str,
        fences: KeptFence,
        kept: KeptSnapshot,
        usage: UsageOutbox,
        metrics: Metrics,
        make_agent: Callable[[RoutingSnapshot], LocalAgent | None],
        pool: PoolName | None,
        clock: Clock,
    ) -> None:
        """Prepare; `join` begins.

        Args:
            worker: Who it is.
            instance: Of this start of the process.
            fences: Keeps the fence from one start to the next.
            kept: Keeps the snapshot.
            usage: Tells control what tenants use here.
            metrics: Of this process.
            make_agent: Makes the agent from the first snapshot that has the base, not yet run; None while none has,
                which it tells in the log.
            pool: The pool that this worker's own configuration asks for.
            clock: Where time comes from.
        """
        self.worker = worker
        self.agent: LocalAgent | None = None
        self.has_agent = asyncio.Event()
        self._instance = instance
        self._fences = FenceKeeper(fences)
        self._kept = kept
        self._keeper = SnapshotKeeper(kept)
        self._usage = usage
        self._metrics = metrics
        self._make_agent = make_agent
        self._pool = pool
        self._clock = clock
        #: Of the newest snapshot that came.
        self._epoch = 0
        #: Under which it served last; 0 where it never did.
        self._last_fence = 0
        #: Under which it serves; 0 while it may not.
        self._fence = 0
        self._is_rejected = False
        self._told: WorkerFacts | None = None
        self._address = ""
        self._door: WorkerDoor | None = None
        self._control: ControlLink | None = None

    def fence(self) -> int:
        """Return the number under which it serves; 0 while it may not."""
        return self._fence

    async def begin(self, control: ControlLink) -> None:
        """Take what was kept: the fence, and the snapshot, from which it can go on without control."""
        self._control = control
        await self._usage.begin(control.send, lambda: control.is_registered)
        self._last_fence = await self._fences.read()
        snapshot = await asyncio.to_thread(self._kept.read)
        if snapshot is not None:
            self._use(snapshot)

    def open_to(self, door: WorkerDoor, address: str) -> None:
        """Let gateways in by this door, once it may serve."""
        self._door, self._address = door, address

    def heartbeat(self, number: int) -> Heartbeat:
        """Return how the worker is, as the heartbeat of this number."""
        assert self.agent is not None
        return self.agent.heartbeat(self.worker, fence=self._fence, number=number)

    async def run(self) -> None:
        """Tell control every second how the worker is, until cancelled."""
        while True:
            await asyncio.sleep(_BEAT_S)
            self._serve_alone()
            self._tell_facts()
            self._tell_control()

    def tell_leaving(self) -> None:
        """Tell everybody at once how the worker is: that it takes no more."""
        self._tell_control()
        if self._door is not None:
            self._door.tell_now()

    async def settle(self) -> None:
        """Return once what is to be kept is kept, where the disk takes it."""
        await self._keeper.settle()
        await self._fences.settle()

    async def say_goodbye(self) -> None:
        """Tell control what was used up to here; what it does not hear is kept."""
        await self._usage.settle()

    # --- what control says -----------------------------------------------------------------------------

    def registering(self) -> Register:
        """Return how to register now."""
        return Register(PROTOCOL, Peer("worker", self.worker), self._instance, self._fence or self._last_fence)

    def registered(self) -> None:
        """Control takes us."""
        self._is_rejected, self._told = False, None
        self._usage.linked()
        self._tell_facts()

    def rejected(self, code: str, message: str) -> None:
        """Another agent is this worker: serve nothing."""
        if not self._is_rejected:
            _log.critical("control rejects this worker (%s): %s", code, message)
        self._is_rejected, self._fence = True, 0
        if self._door is not None:
            self._door.shut_out(message)

    def fenced(self, fence: int) -> None:
        """Serve under this number from now on."""
        self._fences.offer(fence)
        self._fence = self._last_fence = fence
        _log.info("serves as worker %s under fence %d", self.worker, fence)
        if self._door is not None:
            self._door.tell_now()

    def apply(self, snapshot: RoutingSnapshot) -> int:
        """Use this snapshot from now on, and keep it; return the epoch in use, as older ones are ignored."""
        self._use(snapshot)
        if snapshot.epoch == self._epoch:
            self._keeper.offer(snapshot)
        return self._epoch

    def usage_kept(self, stream: str, number: int) -> None:
        """Control counts this stream up to this number."""
        self._usage.kept(stream, number)

    async def answer(self, ask: Ask) -> Told:
        """Return what control asks for; of a request what the agent remembers."""
        match ask:
            case AskActivity(number):
                return ActivityTold(number, self._metrics.activity())
            case AskRequest(number, request):
                return RequestTold(number, at_worker=None if self.agent is None else self.agent.recall(request))
            case AskUsage(number):
                return UsageTold(number, await self._usage.settle())

    # --- within ----------------------------------------------------------------------------------------

    def _tell_control(self) -> None:
        if self.agent is not None and self._door is not None and self._control is not None:
            (report,) = self.agent.view_residency()
            self._control.send(BeatNow(self._door.heartbeat(), report, self.agent.suspicions()))

    def _use(self, snapshot: RoutingSnapshot) -> None:
        self._epoch = max(self._epoch, snapshot.epoch)
        self._metrics.apply_tenants(snapshot.tenants)
        if self.agent is None:
            self.agent = self._make_agent(snapshot)
            if self.agent is None:
                return
            self.has_agent.set()
        self.agent.apply(snapshot)
        if self._door is not None:
            self._door.tell_now()

    def _serve_alone(self) -> None:
        """Without control, go on as the worker that this folder was the last to be."""
        assert self._control is not None
        if self._fence or not may_serve_alone(
            kept_fence=self._last_fence,
            is_rejected=self._is_rejected,
            silence_s=self._control.silence_s(),
            patience_s=_PATIENCE_S,
        ):
            return
        _log.warning("control is away; serves as worker %s under fence %d", self.worker, self._last_fence)
        self._fence = self._last_fence

    def _tell_facts(self) -> None:
        agent = self.agent
        if agent is None or agent.facts is None or self._control is None or not self._address:
            return
        if not self._control.is_registered:
            return
        found = self._facts(agent.facts, agent.store_bytes)
        if found != self._told:
            self._told = found
            self._control.send(FactsNow(found))

    def _facts(self, facts: EngineFacts, store_bytes: int) -> WorkerFacts:
        return WorkerFacts(
            worker=self.worker,
            base=facts.base,
            pool=self._pool,
            rank_class=facts.rank_max,
            num_slots=facts.num_slots,
            hardware_class=facts.hardware_class,
            engine=facts.engine,
            model_len_max=facts.model_len_max,
            num_sequences_max=facts.num_sequences_max,
            slot_bytes=facts.slot_bytes,
            store_bytes=store_bytes,
            address=self._address,
        )
