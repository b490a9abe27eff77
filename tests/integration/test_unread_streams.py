"""A client that never reads its stream holds neither its slot nor its place once the engine is done with it."""

import asyncio
from pathlib import Path

from hotset.core.ids import TenantId
from hotset.core.messages import Finished
from hotset.core.quotas import Quota
from tests.support.agent_world import TENANT, AgentWorld, finish, text_of

OTHER = TenantId("globex")


def test_a_lease_ends_with_the_engines_last_event_though_nobody_reads_it(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path, num_slots=1)
    world.is_as_read = False

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            unread = await world.submit("a")
            assert await world.answer("b") != ""
            assert world.agent.num_leases() == 0
            events = await finish(unread)
            assert isinstance(events[-1], Finished)
            assert text_of(events) == await world.answer("a")

    asyncio.run(story())


def test_one_tenants_unread_streams_leave_the_engine_to_others(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path, num_slots=2, engine_sequences_max=2)
    world.is_as_read = False
    world.quotas = {TENANT: Quota(reserve_slots=1)}

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            unread = [await world.submit("a", tenant=OTHER) for _ in range(6)]
            assert await world.answer("b") != ""
            for ticket in unread:
                await ticket.abort()
            assert world.agent.num_leases() == 0

    asyncio.run(story())
