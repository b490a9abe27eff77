"""A version whose trial has no end is tried again, and one whose lost load came through before it serves."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import EngineName
from hotset.core.messages import Inventory, Score
from hotset.engines.port import Engine
from hotset.residency.events import Count, Counted
from hotset.residency.slots import Slot
from hotset.telemetry.metrics import Metrics
from hotset.worker.effect_runner import EffectRunner
from hotset.worker.local_store import LocalStore
from hotset.worker.observing import Observer
from hotset.worker.progress import Progress
from hotset.worker.readings import Baseline
from hotset.worker.recollection import Recollection
from hotset.worker.watchdog import Rhythm, Watchdog
from tests.support.fake_clock import FakeClock

A, B = EngineName("hs-a"), EngineName("hs-b")


class Scorer:
    """An engine that holds two versions and scores them as it is told to."""

    def __init__(self) -> None:
        self.scored: list[EngineName | None] = []
        #: What the next scores come to; an empty list never answers.
        self.answers: list[Callable[[], Awaitable[float]]] = []

    async def score(self, score: Score) -> list[list[float]]:
        self.scored.append(score.engine_name)
        return [[await self.answers.pop(0)()]]

    async def inventory(self) -> Inventory:
        return Inventory(loaded=(A, B), running=(), kv_blocks_used=0, kv_blocks_total=0)


async def fine() -> float:
    return -1.0


async def spoilt() -> float:
    return math.nan


async def silent() -> float:
    await asyncio.Event().wait()
    return 0.0


async def gone() -> float:
    raise EngineUnavailableError


def watchdog_of(engine: Scorer) -> Watchdog:
    rhythm = Rhythm(60.0, 60.0, lambda: True)
    clock = FakeClock()
    return Watchdog(cast("Engine", engine), cast("Baseline", object()), Progress(clock), rhythm, Metrics(clock))


def runner_of(engine: Scorer, vouch: Callable[[EngineName], Awaitable[bool]], *, timeout_s: float) -> EffectRunner:
    clock = FakeClock()
    metrics = Metrics(clock)
    return EffectRunner(
        cast("Engine", engine),
        cast("LocalStore", object()),
        {},
        Slot,
        Observer(metrics, clock, Recollection(clock)),
        vouch=vouch,
        timeout_s=timeout_s,
        clock=clock,
        metrics=metrics,
    )


@pytest.mark.parametrize("end", ["cancelled", "gone"])
def test_a_trial_that_nothing_came_of_is_held_again_and_one_that_was_passed_is_not(end: str) -> None:
    async def story() -> None:
        engine = Scorer()
        engine.answers = [silent if end == "cancelled" else gone, fine]
        watchdog = watchdog_of(engine)
        trying = asyncio.create_task(watchdog.vouch(A))
        await asyncio.sleep(0)
        if end == "cancelled":
            trying.cancel()
        with pytest.raises((asyncio.CancelledError, EngineUnavailableError)):
            await trying
        assert await watchdog.vouch(A)
        assert await watchdog.vouch(A)
        assert engine.scored == [A, A]

    asyncio.run(story())


def test_what_an_inventory_shows_is_tried_where_it_was_not_and_until_its_trial_has_an_end() -> None:
    async def story() -> None:
        engine = Scorer()
        engine.answers = [fine, silent, fine]
        runner = runner_of(engine, watchdog_of(engine).vouch, timeout_s=0.05)
        for scored in ([A, B], [A, B, B], [A, B, B]):
            assert await runner._carry_out(Count()) == Counted(frozenset({A, B}))
            assert engine.scored == scored

    asyncio.run(story())


def test_what_an_inventory_shows_and_is_spoilt_serves_nobody() -> None:
    async def story() -> None:
        engine = Scorer()
        engine.answers = [spoilt]
        runner = runner_of(engine, watchdog_of(engine).vouch, timeout_s=60.0)
        assert await runner._carry_out(Count()) is None  # the watchdog ends this engine

    asyncio.run(story())
