"""Clocks that drift and jump, but never go back."""

import pytest

from hotset.sim.clocks import SkewedClock, Timers
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


def test_a_crash_takes_all_that_a_node_has_still_to_do() -> None:
    world = World(1)
    timers, done = Timers(SkewedClock(world, rate=2.0)), list[float]()
    timers.after(2.0, "soon", lambda: done.append(world.now_s))
    assert world.step()
    timers.after(1.0, "never", lambda: done.append(world.now_s))
    timers.after(3.0, "never", lambda: done.append(world.now_s))
    timers.cancel_all()
    assert not world.step()
    timers.after(4.0, "after the restart", lambda: done.append(world.now_s))
    assert world.step()
    assert done == [1.0, 3.0]
