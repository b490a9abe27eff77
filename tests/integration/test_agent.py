"""The agent with a real engine process, a real store and real signatures: lanes, slots, trust, death and drain."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from hotset.core.errors import (
    EngineUnavailableError,
    LoadFailedError,
    ModelNotFoundError,
    ShuttingDownError,
    StaleRouteError,
)
from hotset.core.messages import Failed, Finished
from hotset.engines.hosted import HostedEngine
from tests.support.agent_world import (
    AgentWorld,
    blob_path,
    finish,
    flip_last_byte,
    forged,
    num_loads,
    push_out,
    run,
    text_of,
)


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

    assert 8 <= num_loads(run(tmp_path, scenario)) <= 16


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
            await push_out(world, "a")
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
        with pytest.raises(StaleRouteError):
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


async def begin_again(world: AgentWorld) -> None:
    """Wait until another engine than the first serves."""
    async with asyncio.timeout(60):
        while len(world.engines) < 2 or not world.agent.is_ready():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2])
def test_an_agent_that_is_stopped_while_its_engine_starts_ends(tmp_path: Path, after_s: float) -> None:
    async def scenario() -> None:
        world = AgentWorld(tmp_path)
        life = asyncio.create_task(world.agent.run())
        await asyncio.sleep(after_s)
        await world.agent.stop()
        async with asyncio.timeout(60):
            await life
        assert not world.agent.is_ready()
        assert not any(engine.pid is not None and psutil.pid_exists(engine.pid) for engine in world.engines)

    asyncio.run(scenario())


def test_an_error_of_our_own_costs_one_engine_and_no_more(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        store = world.agent._store  # pyright: ignore[reportPrivateUsage]

        def fail(_approved: object) -> None:
            raise ZeroDivisionError

        store.materialise = fail  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(EngineUnavailableError):
            await world.submit("a")
        del store.materialise
        await begin_again(world)
        assert await world.answer("a")
        assert world.agent.num_leases() == 0
        pid = world.engines[0].pid
        assert pid is not None
        assert not psutil.pid_exists(pid)

    run(tmp_path, scenario)


def test_an_engine_that_can_not_be_spawned_is_tried_again(tmp_path: Path) -> None:
    class Unspawnable(HostedEngine):
        async def _spawn(self) -> None:
            raise BlockingIOError(11, "no more processes")

    async def scenario() -> None:
        world = AgentWorld(tmp_path)
        make = world.agent._make_engine  # pyright: ignore[reportPrivateUsage]

        def make_engine() -> HostedEngine:
            engine = make()
            assert isinstance(engine, HostedEngine)
            if len(world.engines) == 1:
                engine.__class__ = Unspawnable
            return engine

        world.agent._make_engine = make_engine  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(100), world.running():
            assert len(world.engines) == 2
            assert await world.answer("a")

    asyncio.run(scenario())


def test_an_engine_that_hangs_is_ended_and_nobody_waits_for_it(tmp_path: Path) -> None:
    """No effect is under way, so nothing but the agent's own question can show it."""

    async def scenario(world: AgentWorld) -> None:
        await world.answer("a")
        pid = world.engines[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        waiting, leaving = await world.submit("a"), await world.submit(None)
        aborted = asyncio.create_task(leaving.abort())
        assert isinstance((await finish(waiting))[-1], Failed)
        await aborted
        await begin_again(world)
        assert await world.answer("a")
        assert world.agent.num_leases() == 0

    run(tmp_path, scenario, effect_timeout_s=6.0)


def test_a_link_in_a_versions_place_is_replaced_and_never_followed(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        first = await world.answer("a")
        await push_out(world, "a")
        elsewhere = world.root / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "keep").write_text("kept")
        local = world.root / "worker" / world.engine_name("a")
        shutil.rmtree(local)
        local.symlink_to(elsewhere)
        assert await world.answer("a") == first
        assert not local.is_symlink()
        assert (elsewhere / "keep").exists()

    run(tmp_path, scenario)


def test_a_link_in_the_stores_place_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keep").write_text("kept")
    (tmp_path / "worker").symlink_to(tmp_path / "elsewhere")

    async def scenario(world: AgentWorld) -> None:
        assert await world.answer("a")
        assert not (tmp_path / "worker").is_symlink()
        assert (tmp_path / "elsewhere" / "keep").exists()

    run(tmp_path, scenario)


def test_what_a_dead_engines_life_left_on_disk_goes_with_it(tmp_path: Path) -> None:
    """The next residency knows nothing of those files, so it would never discard them, not even when withdrawn."""

    async def scenario(world: AgentWorld) -> None:
        await world.answer("a")
        folder = world.root / "worker" / world.engine_name("a")
        assert folder.exists()
        pid = world.engines[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        world.publish_snapshot("b")
        await begin_again(world)
        assert not folder.exists()

    run(tmp_path, scenario)


def test_a_store_that_is_tidied_away_is_made_again(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        first = await world.answer("a")
        shutil.rmtree(tmp_path / "worker")
        assert await world.answer("b")
        assert await world.answer("c")
        assert await world.answer("a") == first

    run(tmp_path, scenario)
