"""The agent under quotas, queues and budgets: who waits for a slot, who gets it, who is told to come back."""

import asyncio
from pathlib import Path

import pytest

from hotset.core.errors import AdapterColdError, LoadRateExceededError, SlotsFullError, TooManyRequestsError
from hotset.core.ids import TenantId
from hotset.core.messages import Failed, Finished
from hotset.core.quotas import Quota
from tests.support.agent_world import TENANT, AgentWorld, finish, num_evictions, num_loads, run, text_of

ROTATING = TenantId("rotating")


def test_leased_slots_let_others_wait_and_a_release_frees_them(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        held = [await world.submit(name) for name in "ab"]
        waits = asyncio.create_task(world.answer("c"))
        assert await world.answer(None)
        assert not waits.done()
        await held[0].abort()
        assert await waits
        assert text_of(await finish(held[1]))
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario)


def test_who_waits_for_a_slot_in_vain_is_told_so(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        held = [await world.submit(name) for name in "ab"]
        with pytest.raises(SlotsFullError):
            await world.submit("c")
        for ticket in held:
            await ticket.abort()
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario, load_timeout_s=5.0)


def test_a_tenant_that_rotates_leaves_a_reserve_alone(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(reserve_slots=1)}
        world.publish_snapshot(*world.records)
        await world.answer("a")
        for name in "bcdbcd":
            await world.answer(name, tenant=ROTATING)
            assert world.engine_name("a") in (await world.engines[0].inventory()).loaded
        assert num_evictions(world, "own") == 5

    assert num_loads(run(tmp_path, scenario)) == 7


def test_a_lent_slot_comes_back_when_what_runs_there_ends(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(reserve_slots=1), ROTATING: Quota(limit_slots=2)}
        world.publish_snapshot(*world.records)
        held = [await world.submit(name, tenant=ROTATING) for name in "bc"]
        owed = asyncio.create_task(world.answer("a"))
        await asyncio.sleep(0)
        later = asyncio.create_task(world.answer("d", tenant=ROTATING))
        await asyncio.sleep(0)
        assert not owed.done()
        for ticket in held:
            await ticket.abort()
        assert await owed
        assert await later
        assert num_evictions(world, "reserve") == 1

    run(tmp_path, scenario)


def test_a_spent_load_rate_refuses_and_says_when_to_come_back(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(limit_slots=2, loads_per_minute=2.0)}
        world.publish_snapshot(*world.records)
        await world.answer("a")
        await world.answer("b")
        with pytest.raises(LoadRateExceededError) as refused:
            await world.submit("c")
        assert 15_000 < refused.value.retry_after_ms <= 30_000
        assert await world.answer("b")

    run(tmp_path, scenario)


def test_the_tenant_that_was_served_less_goes_first(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        order: list[str] = []

        async def ask(label: str, tenant: TenantId) -> None:
            await world.answer("a", tenant=tenant)
            order.append(label)

        await world.answer("a", tenant=ROTATING)
        held = await world.submit("a", tenant=ROTATING)
        waiting = [asyncio.create_task(ask(f"rotating {number}", ROTATING)) for number in range(3)]
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(ask("acme", TENANT)))
        await asyncio.sleep(0)
        assert not order
        await finish(held)
        await asyncio.gather(*waiting)
        assert order.index("acme") <= 1
        assert order[-1] == "rotating 2"

    run(tmp_path, scenario, engine_sequences_max=1)


def test_a_queue_that_is_full_refuses(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        held = await world.submit("a")
        waits = asyncio.create_task(world.answer("a"))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequestsError):
            await world.submit("a")
        await held.abort()
        assert await waits

    run(tmp_path, scenario, engine_sequences_max=1, waiting_max=2)


def test_a_budget_that_a_load_would_miss_is_refused_at_once_and_met_on_the_next_try(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        for name in "ab":
            await world.answer(name)
        with pytest.raises(AdapterColdError) as refused:
            await world.submit("c", budget_ms=1)
        assert 1 <= refused.value.retry_after_ms < 5_000
        async with asyncio.timeout(60):
            while world.engine_name("c") not in (await world.engines[0].inventory()).loaded:
                await asyncio.sleep(0.01)
        ticket = await world.submit("c", budget_ms=20_000)
        assert ticket.lane == "hot"
        assert text_of(await finish(ticket))

    run(tmp_path, scenario, effect_timeout_s=5.0)


def test_a_budget_that_runs_out_while_waiting_is_a_cold_refusal(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(reserve_slots=1), ROTATING: Quota(limit_slots=2)}
        world.publish_snapshot(*world.records)
        held = [await world.submit(name, tenant=ROTATING) for name in "bc"]
        with pytest.raises(AdapterColdError):
            await world.submit("a", budget_ms=300)
        assert [text_of(await finish(ticket)) for ticket in held]
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario)


def test_what_runs_in_a_lent_slot_is_cut_with_an_error_where_the_policy_says_so(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.quotas = {TENANT: Quota(reserve_slots=1), ROTATING: Quota(limit_slots=2)}
        world.publish_snapshot(*world.records)
        lent = [await world.submit(name, tenant=ROTATING) for name in "bc"]
        assert await world.answer("a")
        assert num_evictions(world, "reserve") == 1
        cut, whole = sorted([await finish(ticket) for ticket in lent], key=len)
        assert [event.code for event in cut if isinstance(event, Failed)] == ["slot_reclaimed"]
        assert isinstance(whole[-1], Finished)
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario, reclaim_policy="cut", reclaim_s=0.2)
