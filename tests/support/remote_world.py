"""An `AgentWorld` whose agent is also reached over a link: the same agent, the door before it, a gateway's end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hotset.core.clock import SystemClock
from hotset.core.fleet import WorkerEntry, WorkerFacts
from hotset.core.ids import WorkerId
from hotset.links.address import TlsFiles, UnixAddress, parse_address
from hotset.links.peers import Peer
from hotset.links.remote_agent import RemoteAgent
from hotset.worker.door import WorkerDoor
from tests.support.agent_world import AgentWorld

WORKER = WorkerId("w1")
GATEWAY = Peer("gateway", "g1")


class RemoteWorld:
    """One agent with its door, and a gateway's end of a link to it."""

    def __init__(self, world: AgentWorld, *, address: str = "", tls: tuple[TlsFiles, TlsFiles] | None = None) -> None:
        self.world = world
        self.fence = 1
        self._address = address or str(UnixAddress(world.root / "run" / "w1.sock"))
        self._tls = tls
        self.door = WorkerDoor(
            world.agent,
            WORKER,
            world.base.digest,
            fence=lambda: self.fence,
            beat=lambda number: world.agent.heartbeat(WORKER, fence=self.fence, number=number),
        )
        self.remote: RemoteAgent

    def entry(self, address: str, *, fence: int = 1) -> WorkerEntry:
        facts = WorkerFacts(
            worker=WORKER,
            base=self.world.base.digest,
            rank_class=64,
            num_slots=self.world.num_slots,
            hardware_class="none",
            engine="instant 1",
            model_len_max=512,
            address=address,
        )
        return WorkerEntry(facts=facts, fence=fence)

    def gateway_end(self, address: str, *, fence: int = 1, me: Peer = GATEWAY) -> RemoteAgent:
        return RemoteAgent(
            self.entry(address, fence=fence), me=me, clock=SystemClock(), tls=self._tls[1] if self._tls else None
        )

    @asynccontextmanager
    async def linked(self) -> AsyncIterator["RemoteWorld"]:
        """Open the door and link to it until the block ends."""
        address = parse_address(self._address, "test")
        where = await self.door.open(address, self._tls[0] if self._tls else None, "test")
        self.address = str(where)
        self.remote = self.gateway_end(self.address)
        running = asyncio.create_task(self.remote.run())
        try:
            async with asyncio.timeout(60):
                await self.remote.wait_ready()
            yield self
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            await self.door.close()
