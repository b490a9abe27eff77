"""The agent with a real engine process, a real store and real signatures: lanes, slots, trust, death and drain."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hotset.core.errors import (
    EngineUnavailableError,
    LoadFailedError,
    ModelNotFoundError,
    ShuttingDownError,
    SlotsFullError,
)
from hotset.core.messages import Failed, Finished
from tests.support.agent_world import AgentWorld, blob_path, finish, flip_last_byte, forged, text_of

Scenario = Callable[[AgentWorld], Awaitable[None]]


def run(root: Path, scenario: Scenario, **settings: int | float | str) -> AgentWorld:
    world = AgentWorld(root, **settings)  # pyright: ignore[reportArgumentType]

    async def body() -> None:
        async with asyncio.timeout(60), world.running():
            await scenario(world)

    asyncio.run(body())
    return world


def num_loads(world: AgentWorld) -> int:
    """Loads that were finished, by the metrics."""
    text = world.metrics.text().decode()
    counts = [line.rpartition(" ")[2] for line in text.splitlines() if "load_duration_seconds_count" in line]
    return int(sum(map(float, counts)))


def test_the_first_request_loads_and_the_second_is_hot(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        first = await world.submit("a")
        second = await world.submit("a")
        assert (first.lane, second.lane) == ("loading", "hot")
        assert text_of(await finish(first)) == text_of(await finish(second)) != await world.answer(None)

    run(tmp_path, scenario)


def test_fifty_requests_for_one_cold_version_load_it_once(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        answers = await asyncio.gather(*(world.answer("a") for _ in range(50)))
        assert len(set(answers)) == 1

    assert num_loads(run(tmp_path, scenario)) == 1


def test_more_versions_than_slots_take_turns(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        expected = {name: await world.answer(name) for name in "abcd"}
        assert len(set(expected.values())) == 4
        for _ in range(3):
            for name in "abcd":
                assert await world.answer(name) == expected[name]
        assert len((await world.engines[0].inventory()).loaded) <= 2

    assert num_loads(run(tmp_path, scenario)) == 16


def test_leased_slots_refuse_and_a_release_frees_them(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        held = [await world.submit(name) for name in "ab"]
        with pytest.raises(SlotsFullError):
            await world.submit("c")
        assert await world.answer(None)
        await held[0].abort()
        assert await world.answer("c")
        assert text_of(await finish(held[1]))
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario)


def test_a_client_that_leaves_while_its_version_loads_leaves_no_lease(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        waiting = asyncio.create_task(world.submit("a"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert world.agent.num_leases() == 0
        assert await world.answer("a")

    run(tmp_path, scenario)


def test_changed_bytes_in_the_trusted_store_never_reach_the_engine(tmp_path: Path) -> None:
    """I6."""

    async def scenario(world: AgentWorld) -> None:
        flip_last_byte(blob_path(world, "a"))
        with pytest.raises(LoadFailedError):
            await world.submit("a")
        with pytest.raises(LoadFailedError):
            await world.submit("a")
        assert await world.answer("b")
        assert world.engine_name("a") not in (await world.engines[0].inventory()).loaded
        assert not (world.root / "worker" / world.engine_name("a")).exists()

    run(tmp_path, scenario)


def test_changed_or_missing_local_files_are_fetched_again(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        first = await world.answer("a")
        local = world.root / "worker" / world.engine_name("a") / "adapter_model.safetensors"
        for harm in (flip_last_byte, Path.unlink):
            await world.answer("b")
            await world.answer("c")
            harm(local)
            assert await world.answer("a") == first
            assert local.read_bytes() == blob_path(world, "a").read_bytes()

    run(tmp_path, scenario)


def test_another_versions_approval_is_no_approval(tmp_path: Path) -> None:
    """I6."""

    async def scenario(world: AgentWorld) -> None:
        world.records["a"] = forged(world.records["a"], world.records["b"])
        world.publish_snapshot("a", "b")
        with pytest.raises(LoadFailedError):
            await world.submit("a")
        assert (await world.engines[0].inventory()).loaded == ()

    run(tmp_path, scenario)


def test_a_withdrawn_version_finishes_what_runs_and_then_leaves(tmp_path: Path) -> None:
    """I11 and I12."""

    async def scenario(world: AgentWorld) -> None:
        running = await world.submit("a")
        folder = world.root / "worker" / world.engine_name("a")
        world.publish_snapshot("b", "c")
        with pytest.raises(ModelNotFoundError):
            await world.submit("a")
        assert folder.exists()
        assert isinstance((await finish(running))[-1], Finished)
        await world.answer("b")
        await world.answer("c")  # effects run in order: the discard came before this load
        assert not folder.exists()

    run(tmp_path, scenario)


def test_an_older_snapshot_is_ignored(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        world.publish_snapshot("a")
        world.epoch -= 2
        world.publish_snapshot("b")
        assert await world.answer("a")
        with pytest.raises(ModelNotFoundError):
            await world.submit("b")

    run(tmp_path, scenario)


def test_a_killed_engine_is_started_again_and_reloads_what_is_asked(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        first = await world.answer("a")
        running = await world.submit("a")
        pid = world.engines[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await world.engines[0].wait_gone()
        assert isinstance((await finish(running))[-1], Finished | Failed)
        await world.agent.wait_ready()
        while len(world.engines) < 2 or not world.agent.is_ready():
            await asyncio.sleep(0.01)
        assert await world.answer("a") == first
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario)


def test_a_stopping_agent_takes_no_more_and_lets_the_rest_finish(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        running = await world.submit("a")
        stopping = asyncio.create_task(world.agent.stop())
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDownError):
            await world.submit("a")
        assert isinstance((await finish(running))[-1], Finished)
        await stopping

    run(tmp_path, scenario)


def test_an_agent_serves_its_own_base_only_and_only_once_its_engine_serves(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        stranger = AgentWorld(tmp_path / "other")
        with pytest.raises(EngineUnavailableError):
            await stranger.submit(None)
        assert not stranger.agent.is_ready()
        assert stranger.agent.model_len_max() == 0
        assert world.agent.model_len_max() == world.base.shape.context_len

    run(tmp_path / "own", scenario)
