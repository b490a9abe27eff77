"""Virtual time: order, cancelling, randomness by purpose, the log."""

import pytest

from hotset.sim.world import World


def test_events_happen_in_order_of_time_and_then_of_asking() -> None:
    world, seen = World(1), list[str]()
    for name, delay_s in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        world.after(delay_s, name, lambda name=name: seen.append(f"{name} at {world.now_s}"))
    while world.step():
        pass
    assert seen == ["first at 1.0", "second at 1.0", "late at 2.0"]


def test_what_is_cancelled_does_not_happen_and_is_no_event() -> None:
    world, seen = World(1), list[str]()
    world.after(1.0, "no", lambda: seen.append("no")).cancel()
    world.after(2.0, "yes", lambda: seen.append("yes"))
    assert world.step()
    assert not world.step()
    assert seen == ["yes"]
    assert world.log.num_events == 1


def test_nothing_happens_in_the_past() -> None:
    with pytest.raises(AssertionError, match="in the past"):
        World(1).after(-0.1, "never", lambda: None)


def test_randomness_is_one_stream_for_each_purpose() -> None:
    one, other = World(7), World(7)
    one.randomness("clients").random()
    assert one.randomness("network").random() == other.randomness("network").random()
    assert one.randomness("network").random() != one.randomness("clients").random()
    assert World(8).randomness("network").random() != World(7).randomness("network").random()


def test_the_digest_covers_every_line_and_the_tail_the_last_ones() -> None:
    logs = [World(1).log for _ in range(3)]
    for log in logs:
        log.event(0.5, "one")
        for index in range(60):
            log.note(f"note {index}")
    logs[2].note("more")
    assert logs[0].digest() == logs[1].digest() != logs[2].digest()
    assert logs[0].last()[-1].strip() == "note 59"
    assert len(logs[0].last()) == 40
