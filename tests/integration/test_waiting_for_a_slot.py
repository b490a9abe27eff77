"""Requests that no slot was found for yet are an agent's as much as those that run."""

import asyncio
from pathlib import Path

import pytest

from hotset.core.errors import AdapterColdError, SlotsFullError
from hotset.core.ids import TenantId
from hotset.core.quotas import Quota
from tests.support.agent_world import TENANT, AgentWorld

OTHER = TenantId("globex")


def all_reserved(root: Path, **settings: object) -> AgentWorld:
    world = AgentWorld(root, num_slots=1, **settings)
    world.quotas = {TENANT: Quota(reserve_slots=1)}
    return world


def test_one_that_wants_a_slot_counts_and_is_waited_for_at_the_end(tmp_path: Path) -> None:
    world = all_reserved(tmp_path, load_timeout_s=5.0)

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            await world.answer("a")
            wanting = asyncio.create_task(world.submit("b", tenant=OTHER))
            await asyncio.sleep(0)
            assert world.agent.num_leases() == 1
            await world.agent.stop()
            with pytest.raises(SlotsFullError):
                await wanting
            assert world.agent.num_leases() == 0

    asyncio.run(story())


def test_a_budget_of_nothing_is_one(tmp_path: Path) -> None:
    """Before anything was seen it is tried; it must not be taken for none then."""
    world = all_reserved(tmp_path)

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            with pytest.raises(AdapterColdError):
                await world.submit("a", budget_ms=0)

    asyncio.run(story())
