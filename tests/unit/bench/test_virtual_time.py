"""A loop in virtual time: timers in order and at once, threads waited for, the fake engine exact on it."""

import asyncio

import pytest

from hotset.bench.virtual_time import VirtualClock, run_virtual
from hotset.core.messages import Finished
from hotset.engines.fake.engine import FakeSettings
from hotset.engines.fake.inline import InlineEngine
from hotset.engines.fake.profiles import PROFILES
from tests.support.adapters import tiny_base_version
from tests.support.fake_engines import ask, load_of

PLAIN = PROFILES["plain"].timing


def test_an_hour_of_sleep_takes_no_time_and_the_clock_shows_it() -> None:
    clock = VirtualClock()

    async def story() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def sleep(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, clock.monotonic_s()))

        await asyncio.gather(sleep("late", 3600.0), sleep("early", 1.0))
        return seen

    assert run_virtual(clock, story()) == [("early", pytest.approx(1.0)), ("late", pytest.approx(3600.0))]


def test_the_clock_stands_still_while_a_thread_works() -> None:
    clock = VirtualClock()

    async def story() -> float:
        timer = asyncio.create_task(asyncio.sleep(5.0))
        assert await asyncio.to_thread(sum, range(100_000)) == 4_999_950_000
        stood_at_s = clock.monotonic_s()
        await timer
        return stood_at_s

    assert run_virtual(clock, story()) == 0.0
    assert clock.wall_s() == pytest.approx(5.0)


def test_a_time_limit_holds() -> None:
    async def story() -> None:
        async with asyncio.timeout(10.0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_virtual(VirtualClock(), story())


def test_the_fake_engine_takes_exactly_its_profiles_time() -> None:
    clock = VirtualClock()

    async def story() -> None:
        engine = InlineEngine(FakeSettings(base=tiny_base_version()), clock)
        await engine.start()
        report = await engine.load(load_of("a"))
        assert report.stall_seconds == pytest.approx(PLAIN.load_s)
        began_s = clock.monotonic_s()
        stream = engine.generate(ask("r", load_of("a").engine_name, max_tokens=2))
        events = []
        while ready := await stream.events():
            events += ready
        assert isinstance(events[-1], Finished)
        first_s = PLAIN.of_step(num_sequences=1, num_adapters=1, num_prompt_tokens=4)
        second_s = PLAIN.of_step(num_sequences=1, num_adapters=1, num_prompt_tokens=0)
        assert clock.monotonic_s() - began_s == pytest.approx(first_s + second_s)
        await engine.stop()

    run_virtual(clock, story())


def test_an_aborted_request_brings_nothing_of_the_step_under_way() -> None:
    clock = VirtualClock()

    async def story() -> None:
        engine = InlineEngine(FakeSettings(base=tiny_base_version()), clock)
        await engine.start()
        stream = engine.generate(ask("r", max_tokens=1))
        await stream.events()
        await asyncio.sleep(PLAIN.step_s / 2)
        await stream.abort()
        assert await stream.events() == []
        assert (await engine.inventory()).running == ()
        await engine.stop()
        assert await engine.wait_gone()

    run_virtual(clock, story())
