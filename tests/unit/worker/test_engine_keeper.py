"""An engine's life is ended whole, however it ends: cancelled as it starts, or with errors of our own on the way."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from hotset.core.ids import BaseName
from hotset.engines.port import Engine
from hotset.telemetry.metrics import Metrics
from hotset.worker.engine_keeper import EngineKeeper
from hotset.worker.engine_life import EngineLife
from hotset.worker.settings import WorkerSettings
from hotset.worker.starting import Fresh, Starter
from tests.support.fake_clock import FakeClock

_FACTS = SimpleNamespace(engine="fake", num_slots=1)


class World:
    """Of one engine: what it is told, and what its life does; stands for the starter, the engine and the life."""

    def __init__(self, *, starts: bool = True, meters: bool = True, stops: bool = True) -> None:
        self._starts, self._meters, self._stops = starts, meters, stops
        self.calls: list[str] = []
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.stocktaking = SimpleNamespace(run=self.run_effects)
        self.engine = self
        self.keeper = EngineKeeper(
            BaseName("tiny"),
            cast("Starter", self),
            make_engine=self._make_engine,
            make_life=lambda engine, fresh: cast("EngineLife", self),
            blame=lambda finding: self.calls.append(f"blame {finding}"),
            settings=WorkerSettings(restart_pause_min_s=60.0),
            metrics=Metrics(FakeClock()),
        )

    async def _make_engine(self) -> Engine:
        return cast("Engine", self)

    async def start(self, engine: Engine) -> Fresh:
        assert engine is cast("Engine", self)
        self.calls.append("start")
        try:
            if not self._starts:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.calls.append("start cancelled")
            raise
        return cast("Fresh", SimpleNamespace(facts=_FACTS))

    async def wait_gone(self) -> str:
        return await self.gone

    async def stop(self) -> None:
        self.calls.append("stop")
        if not self._stops:
            raise RuntimeError("it can't be stopped")

    async def run_effects(self) -> None:
        await asyncio.Event().wait()

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def meter(self) -> None:
        if not self._meters:
            raise RuntimeError("it counts wrongly")
        await asyncio.Event().wait()

    def end(self) -> None:
        self.calls.append("end")


async def turns_pass() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelled_while_an_engine_starts_nothing_of_it_is_left() -> None:
    async def story() -> None:
        world = World(starts=False)
        running = asyncio.create_task(world.keeper.run())
        await turns_pass()
        assert world.calls == ["start"]
        await cancelled(running)
        assert world.calls == ["start", "start cancelled", "stop"]

    asyncio.run(story())


def test_what_counts_beside_an_engine_and_fails_is_told_and_the_engine_serves_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        world = World(meters=False)
        running = asyncio.create_task(world.keeper.run())
        await turns_pass()
        assert world.keeper.is_ready()
        (told,) = (record for record in caplog.records if record.levelname == "CRITICAL")
        assert told.exc_info is not None
        assert str(told.exc_info[1]) == "it counts wrongly"
        await cancelled(running)
        assert world.calls == ["start", "stop", "end"]

    asyncio.run(story())


def test_a_life_ends_though_its_engine_can_not_be_stopped() -> None:
    async def story() -> None:
        world = World(stops=False)
        running = asyncio.create_task(world.keeper.run())
        await turns_pass()
        world.gone.set_result("killed")
        await turns_pass()
        assert world.calls == ["start", "stop", "end"]
        assert not world.keeper.is_ready()
        await cancelled(running)

    asyncio.run(story())
