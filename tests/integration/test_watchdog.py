"""An engine that goes wrong after a version is loaded: it is ended, the version held back, nobody else blamed."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.messages import Failed, Inventory
from tests.support.agent_world import AgentWorld, finish
from tests.support.wrong_engines import WrongEngine, Wrongs

Story = Callable[[AgentWorld, Wrongs], Awaitable[None]]


def run(root: Path, story: Story, **settings: float) -> AgentWorld:
    wrongs = Wrongs()
    world = AgentWorld(root, **settings)  # pyright: ignore[reportArgumentType]
    world.kind = "instant_stepwise"
    world.make_engine = lambda spec: WrongEngine(spec, wrongs)

    async def body() -> None:
        async with asyncio.timeout(110), world.running():
            await story(world, wrongs)

    asyncio.run(body())
    return world


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def next_engine(world: AgentWorld, number: int) -> None:
    await until(lambda: len(world.engines) == number and world.agent.is_ready())


def metric(world: AgentWorld, line: str) -> float:
    lines = world.metrics.text().decode().splitlines()
    return sum(float(each.rpartition(" ")[2]) for each in lines if each.startswith(line))


def passed(world: AgentWorld, subject: str = "base") -> float:
    return metric(world, f'hotset_watchdog_probes_total{{outcome="passed",subject="{subject}"}}')


def test_a_version_that_spoils_the_base_is_held_back_and_its_engine_ended(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        bad = world.engine_name("b")
        assert await world.answer("a")
        await until(lambda: passed(world) >= 1)
        running = await world.submit("a", max_tokens=10_000_000)
        wrongs.mixing.add(bad)
        with pytest.raises((EngineUnavailableError, LoadFailedError)):
            while True:
                await world.answer("b")
        last = (await finish(running))[-1]
        assert isinstance(last, Failed)
        assert last.code == "engine_failed"
        await next_engine(world, 2)
        (suspicion,) = world.agent.suspicions()
        assert (suspicion.version, suspicion.flaw) == (bad, "base_differs")
        with pytest.raises(LoadFailedError, match="held back"):
            await world.answer("b")
        assert await world.answer(None) == "base.0 base.1 base.2 base.3 base.4 "
        assert await world.answer("a")
        assert (2, bad) not in wrongs.loads
        assert metric(world, 'hotset_engines_ended_total{reason="base_differs"}') == 1
        # Control took it over and released it, all while the worker heard nothing: it is tried anew.
        wrongs.mixing.clear()
        world.publish_snapshot("a", "b", "c", releases={bad: 1})
        assert world.agent.suspicions() == ()
        assert await world.answer("b")
        assert len(world.engines) == 2

    run(tmp_path, story)


def test_a_version_of_numbers_that_are_none_serves_nobody(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        wrongs.not_finite.add(world.engine_name("b"))
        assert await world.answer("a")
        with pytest.raises(EngineUnavailableError):
            await world.answer("b")
        await next_engine(world, 2)
        assert [(each.version, each.flaw) for each in world.agent.suspicions()] == [
            (world.engine_name("b"), "version_not_finite")
        ]
        assert await world.answer("a")

    run(tmp_path, story)


def test_a_machine_that_is_sick_by_itself_serves_nobody_and_blames_nobody(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        assert await world.answer("a")
        wrongs.mixing.add(world.engine_name("b"))
        wrongs.is_sick = True
        with pytest.raises((EngineUnavailableError, LoadFailedError)):
            while True:
                await world.answer("b")
        await until(lambda: len(world.engines) >= 3)
        assert not world.agent.is_ready()
        assert world.agent.suspicions() == ()
        with pytest.raises(EngineUnavailableError):
            await world.answer("a")
        wrongs.is_sick = False
        await until(world.agent.is_ready)
        assert await world.answer("a")

    run(tmp_path, story)


def test_an_engine_that_goes_wrong_by_itself_is_ended_within_an_interval_and_blames_nobody(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        assert await world.answer("a")
        await until(lambda: passed(world) >= 2)
        engine = world.engines[0]
        assert isinstance(engine, WrongEngine)
        engine._mixed = world.engine_name("a")
        await next_engine(world, 2)
        assert world.agent.suspicions() == ()
        assert await world.answer("a")

    run(tmp_path, story, watchdog_interval_s=0.2)


@pytest.mark.parametrize(("num_failing", "flaws"), [(1, []), (2, ["base_failed"])])
def test_one_step_that_failed_is_asked_about_again_before_anybody_is_blamed(
    tmp_path: Path, num_failing: int, flaws: list[str]
) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        await until(world.agent.is_ready)
        wrongs.num_failing = num_failing
        (answer,) = await asyncio.gather(world.answer("a"), return_exceptions=True)
        assert flaws or isinstance(answer, str)  # an engine that is blamed may end before it has answered
        await until(lambda: passed(world) >= 1 or len(world.engines) == 2)
        await until(world.agent.is_ready)
        assert [each.flaw for each in world.agent.suspicions()] == flaws
        assert len(world.engines) == 1 + len(flaws)

    run(tmp_path, story)


class MuteEngine(WrongEngine):
    """Does not say what it holds for a while, though it lives."""

    is_mute = False

    async def inventory(self) -> Inventory:
        if self.is_mute:
            raise EngineUnavailableError("the engine's plugin fails: 500")
        return await super().inventory()


def test_an_engine_that_says_nothing_for_a_while_is_watched_again_afterwards(tmp_path: Path) -> None:
    wrongs = Wrongs()
    world = AgentWorld(tmp_path, watchdog_interval_s=0.1)
    world.kind = "instant_stepwise"
    world.make_engine = lambda spec: MuteEngine(spec, wrongs)

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            (engine,) = world.engines
            assert isinstance(engine, MuteEngine)
            engine.is_mute, wrongs.num_failing = True, 1
            await until(lambda: not wrongs.num_failing)
            await asyncio.sleep(0.1)
            engine.is_mute = False
            before = passed(world)
            await until(lambda: passed(world) > before and world.agent.view_residency()[0].inventory is not None)
            assert len(world.engines) == 1

    asyncio.run(story())


def test_an_engine_that_dies_or_hangs_alone_blames_nobody(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        for number, sign in ((2, signal.SIGKILL), (3, signal.SIGSTOP)):
            assert await world.answer("a")
            before = passed(world)
            await until(lambda before=before: passed(world) > before)
            pid = world.engines[-1].pid
            assert pid is not None
            os.kill(pid, sign)
            await next_engine(world, number)
            assert world.agent.suspicions() == ()
        assert metric(world, 'hotset_engines_ended_total{reason="silent"}') == 1

    run(tmp_path, story, watchdog_interval_s=0.1, stall_timeout_s=4.0)  # longer than a busy machine may pause


def test_probes_are_few_and_take_nobodys_place(tmp_path: Path) -> None:
    async def story(world: AgentWorld, wrongs: Wrongs) -> None:
        long = await world.submit("a", max_tokens=10_000_000)
        await until(lambda: passed(world) == 1)
        other = asyncio.create_task(world.answer("b"))
        await until(lambda: (passed(world, "version"), passed(world)) == (2, 2))
        assert not other.done()  # the one place is taken, and the probes took none
        await long.abort()
        assert await other
        assert (passed(world, "version"), passed(world)) == (2, 2)

    run(tmp_path, story, engine_sequences_max=1, watchdog_interval_s=600.0)  # no look but those after loads
