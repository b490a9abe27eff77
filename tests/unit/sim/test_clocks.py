"""Clocks that drift and jump, but never go back."""

import pytest

from hotset.sim.clocks import SkewedClock
from hotset.sim.world import World


def pass_time(world: World, seconds: float) -> None:
    world.after(seconds, "time passes", lambda: None)
    world.step()


def test_a_fast_clock_counts_more_and_its_timers_fire_early() -> None:
    world = World(1)
    clock, fired = SkewedClock(world, rate=2.0), list[float]()
    clock.after(3.0, "timer", lambda: fired.append(world.now_s))
    world.step()
    assert fired == [1.5]
    assert clock.monotonic_s() == pytest.approx(3.0)


def test_another_rate_counts_from_now_on_and_never_back() -> None:
    world = World(1)
    clock = SkewedClock(world, rate=2.0)
    pass_time(world, 1.0)
    clock.set_rate(0.5)
    assert clock.monotonic_s() == pytest.approx(2.0)
    pass_time(world, 1.0)
    assert clock.monotonic_s() == pytest.approx(2.5)


def test_the_wall_clock_is_off_by_what_it_is_set_to() -> None:
    world = World(1)
    right, wrong = SkewedClock(world), SkewedClock(world, wall_offset_s=300.0)
    assert wrong.wall_s() - right.wall_s() == pytest.approx(300.0)
