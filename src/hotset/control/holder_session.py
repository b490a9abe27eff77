"""The link of one process that holds snapshots: what it said last, and what is on its way to it."""

import asyncio
from dataclasses import replace
from typing import Any

from hotset.control.asking import Questions
from hotset.core.fleet import Heartbeat, Suspicion
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.link import Link
from hotset.links.peers import Peer
from hotset.links.snapshot_pieces import SnapshotCutter
from hotset.routing.identity import Claimant


class Session:
    """One registered holder's link."""

    def __init__(self, peer: Peer, instance: str, link: Link[Any], began_s: float, *, fence: int) -> None:
        self.peer = peer
        self.instance = instance
        self.link = link
        self.began_s = began_s
        self.epoch = 0
        #: The fence it has, or came with.
        self.fence = fence
        self.heartbeat: Heartbeat | None = None
        self.report: WorkerReport | None = None
        #: When both came, in monotonic seconds.
        self.heard_at_s = began_s
        self.questions = Questions(link)
        #: It said that it ends.
        self.is_leaving = False
        self.suspicions: tuple[Suspicion, ...] = ()
        #: What it says is written down one after the other.
        self.turn = asyncio.Lock()
        #: Since when it has not acknowledged the newest snapshot; None where it did.
        self._behind_since_s: float | None = None
        self._cutter = SnapshotCutter()
        self._newest: RoutingSnapshot | None = None
        #: Epoch of the last snapshot that is to reach it.
        self._offered = 0
        self._sending: asyncio.Task[None] | None = None

    @property
    def claimant(self) -> Claimant:
        """Who it says it is."""
        return Claimant(self.instance, self.fence)

    def offer(self, snapshot: RoutingSnapshot, now_s: float) -> None:
        """Send this snapshot, after what is being sent."""
        self._offered = snapshot.epoch
        if self.epoch < snapshot.epoch and self._behind_since_s is None:
            self._behind_since_s = now_s
        self._newest = snapshot if self.peer.role == "gateway" else for_worker(snapshot)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    def applied(self, epoch: int) -> None:
        """The holder acknowledges a snapshot."""
        self.epoch = epoch
        if epoch >= self._offered:
            self._behind_since_s = None

    def lag_s(self, now_s: float) -> float:
        """Return for how long it has been behind, in seconds."""
        return 0.0 if self._behind_since_s is None else now_s - self._behind_since_s

    def end(self) -> None:
        """The link has ended."""
        self.questions.end()
        if self._sending is not None:
            self._sending.cancel()

    async def settled(self) -> None:
        """Return once what was offered is sent."""
        if self._sending is not None:
            await asyncio.wait({self._sending})

    async def _send(self) -> None:
        while self._newest is not None and self.link.is_open:
            snapshot, self._newest = self._newest, None
            for piece in self._cutter.pieces(snapshot):
                self.link.send(piece)
                await self.link.writable()


def for_worker(snapshot: RoutingSnapshot) -> RoutingSnapshot:
    """Return what a worker may know: versions and quotas, no keys and no names that tenants use."""
    return replace(snapshot, keys={}, aliases={}, cuts=())
