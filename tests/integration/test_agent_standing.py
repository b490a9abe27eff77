"""An agent does as the snapshot says of its worker: frozen, draining, or of one pool only."""

import asyncio
from pathlib import Path

import pytest

from hotset.core.errors import EngineUnavailableError, LoadsFrozenError, StaleRouteError
from hotset.core.fleet import WorkerState
from hotset.core.ids import PoolName, TenantId, WorkerId
from hotset.core.quotas import Quota
from tests.support.agent_world import TENANT, AgentWorld, run
from tests.support.fleets import entry_of

OTHER = TenantId("globex")


def in_fleet(*, pool: str = "default", state: WorkerState = "serving") -> dict[str, object]:
    """What a snapshot says of worker w."""
    return {"workers": {WorkerId("w"): entry_of("w", pool=pool, state=state)}}


def test_a_frozen_agent_serves_what_is_hot_and_loads_nothing(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        expected = await world.answer("a")
        world.publish_snapshot("a", "b", is_frozen=True)
        assert await world.answer("a") == expected
        with pytest.raises(LoadsFrozenError) as refused:
            await world.submit("b")
        assert refused.value.retry_after_ms == 30_000
        loaded = (await world.engines[0].inventory()).loaded
        assert loaded == (world.engine_name("a"),)
        world.publish_snapshot("a", "b")
        assert await world.answer("b")

    run(tmp_path, scenario)


def test_those_that_wait_for_a_slot_are_refused_when_the_freeze_begins(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        running = await world.submit("a")
        waiting = asyncio.create_task(world.submit("b"))
        await asyncio.sleep(0)
        world.publish_snapshot("a", "b", is_frozen=True)
        with pytest.raises(LoadsFrozenError):
            await waiting
        await running.abort()

    run(tmp_path, scenario, num_slots=1)


def test_a_version_that_is_withdrawn_leaves_its_slot_while_frozen(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        await world.answer("a")
        world.publish_snapshot("b", is_frozen=True)
        async with asyncio.timeout(60):
            while (await world.engines[0].inventory()).loaded:
                await asyncio.sleep(0.01)
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario)


def test_an_agent_that_is_drained_finishes_what_it_has_and_takes_nothing_more(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.publish_snapshot("a", **in_fleet())
        running = await world.submit("a")
        world.publish_snapshot("a", **in_fleet(state="draining"))
        for name in ("a", None):
            with pytest.raises(EngineUnavailableError):
                await world.submit(name)
        assert world.agent.num_leases() == 1
        await running.abort()
        world.publish_snapshot("a", **in_fleet(state="cordoned"))
        assert await world.answer("a")  # what a gateway sent before it knew

    run(tmp_path, scenario, worker="w")


def test_an_agent_takes_requests_of_its_pools_tenants_only(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        pools = {(TENANT, world.base.digest): PoolName("own")}
        world.publish_snapshot("a", tenant_pools=pools, **in_fleet(pool="own"))
        assert await world.answer("a")
        with pytest.raises(EngineUnavailableError):
            await world.submit("a", tenant=OTHER)
        world.publish_snapshot("a", tenant_pools=pools, **in_fleet())
        assert await world.answer("a", tenant=OTHER)
        with pytest.raises(EngineUnavailableError):
            await world.submit("a")

    run(tmp_path, scenario, worker="w")


def test_a_request_resolved_before_its_tenant_went_elsewhere_is_stale(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        pools = {(TENANT, world.base.digest): PoolName("own")}
        world.publish_snapshot("a", tenant_pools=pools, **in_fleet())
        world.epoch -= 1  # what the gateway has
        with pytest.raises(StaleRouteError) as stale:
            await world.submit("a")
        assert stale.value.epoch == world.epoch + 1

    run(tmp_path, scenario, worker="w")


def test_a_request_of_a_tenant_that_is_just_coming_waits_for_the_snapshot_that_says_so(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        pools = {(TENANT, world.base.digest): PoolName("own")}
        world.publish_snapshot("a", tenant_pools=pools, **in_fleet())
        world.epoch += 1
        early = asyncio.create_task(world.submit("a"))
        await asyncio.sleep(0)
        assert not early.done()
        world.epoch -= 1
        world.publish_snapshot("a", **in_fleet())
        await (await early).abort()

    run(tmp_path, scenario, worker="w")


def test_reserves_of_tenants_of_other_pools_take_no_slot(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(limit_slots=2), OTHER: Quota(reserve_slots=2)}
        pools = {(OTHER, world.base.digest): PoolName("own")}
        world.publish_snapshot("a", "b", tenant_pools=pools, **in_fleet())
        (report,) = world.agent.view_residency()
        assert report.residency is not None
        assert OTHER not in {share.tenant for share in report.residency.tenants}
        await world.answer("a")
        assert await world.answer("b")

    run(tmp_path, scenario, worker="w")
