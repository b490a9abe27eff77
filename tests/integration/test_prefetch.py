"""An agent brings in what is at home at its worker: real files, a real engine process."""

import asyncio
from pathlib import Path

from hotset.core.fleet import WorkerEntry, WorkerFacts
from hotset.core.ids import WorkerId
from hotset.core.quotas import Quota
from tests.support.agent_world import TENANT, AgentWorld, blob_path, flip_last_byte

W1, W2 = WorkerId("w1"), WorkerId("w2")


def run(root: Path, scenario: object, **settings: object) -> None:
    async def body() -> None:
        world = AgentWorld(root, worker="w1", **settings)  # pyright: ignore[reportArgumentType]
        world.quotas = {TENANT: Quota(reserve_slots=1, limit_slots=world.num_slots)}
        async with asyncio.timeout(100), world.running():
            await scenario(world)  # pyright: ignore

    asyncio.run(body())


def come_home(world: AgentWorld, **homes: tuple[WorkerId, ...]) -> None:
    """Publish a snapshot in which these versions have these homes."""
    facts = WorkerFacts(
        worker=W1, base=world.base.digest, rank_class=64, num_slots=2, hardware_class="none", engine="instant"
    )
    named = {world.engine_name(name): where for name, where in homes.items()}
    world.publish_snapshot(*world.records, homes=named, workers={W1: WorkerEntry(facts=facts, fence=1)})


async def becomes(world: AgentWorld, what: str, names: set[str]) -> None:
    """Return once the worker's heartbeat says that these versions, and no others, are there."""
    expected = {world.engine_name(name) for name in names}
    async with asyncio.timeout(60):
        while set(getattr(world.agent.heartbeat(W1, fence=1, number=1), what)) != expected:
            await asyncio.sleep(0.01)


def test_files_of_a_new_home_are_there_before_the_first_request(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        come_home(world, a=(W1,), b=(W2,), c=(W1,))
        await becomes(world, "warm", {"a", "c"})
        assert (await world.engines[0].inventory()).loaded == ()
        come_home(world, a=(W1,), b=(W1,), c=(W1,))
        await becomes(world, "warm", {"a", "b", "c"})
        await world.answer("b")
        text = world.metrics.text().decode()
        assert 'hotset_adapter_lookups_total{tier="warm"} 1.0' in text
        assert 'hotset_adapter_prefetches_total{outcome="done",step="fetch"} 3.0' in text
        assert 'hotset_adapter_prefetches_total{outcome="used",step="fetch"} 1.0' in text
        assert 'hotset_adapter_load_duration_seconds_count{rank_class="8",source_tier="warm"} 1.0' in text

    run(tmp_path, scenario)


def test_a_busy_version_is_loaded_at_its_new_home_for_its_owners_reserve(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        come_home(world, a=(W2, W1), b=(W2, W1))
        await becomes(world, "resident", {"a"})
        await becomes(world, "warm", {"b"})
        (report,) = world.agent.view_residency()
        (loaded,) = report.events
        assert (loaded.kind, loaded.cause, loaded.tenant) == ("loaded", "prefetch", TENANT)
        ticket = await world.submit("a")
        assert ticket.lane == "hot"
        await ticket.abort()
        assert 'prefetches_total{outcome="used",step="load"} 1.0' in world.metrics.text().decode()

    run(tmp_path, scenario)


def test_bytes_that_do_not_match_never_count_as_there_and_the_rest_comes(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        flip_last_byte(blob_path(world, "a"))
        come_home(world, a=(W1,), b=(W1,))
        await becomes(world, "warm", {"b"})
        assert 'prefetches_total{outcome="failed",step="fetch"} 1.0' in world.metrics.text().decode()

    run(tmp_path, scenario)


def test_an_engine_that_starts_anew_finds_its_homes_again(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        come_home(world, a=(W1,))
        await becomes(world, "warm", {"a"})
        await world.engines[0].stop()
        async with asyncio.timeout(60):
            while len(world.engines) < 2 or not world.agent.is_ready():
                await asyncio.sleep(0.01)
        await becomes(world, "warm", {"a"})
        assert 'prefetches_total{outcome="done",step="fetch"} 2.0' in world.metrics.text().decode()

    run(tmp_path, scenario)
