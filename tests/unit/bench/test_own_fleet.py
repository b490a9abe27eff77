"""A bench on a running fleet before its requests: its keys, its bounds, and who asks for what."""

from pathlib import Path

import pytest

from hotset.bench.asking import Answer
from hotset.bench.crowd import Cast, Habits, Pace
from hotset.bench.own_fleet import OwnFleet, Reached, client_of, run_on_fleet
from hotset.bench.own_scenarios import Settings, in_turn, points_of
from hotset.core.errors import InvalidRequestError
from hotset.core.ids import TenantId
from tests.support.fake_clock import FakeClock

ACME, CROWD = Path("acme.key"), Path("crowd.key")
NOWHERE = OwnFleet(gateways=("http://127.0.0.1:1",), minutes_max=1.0)


def settings(*others: Path, slots_left: int = 2) -> Settings:
    return Settings(
        fleet=NOWHERE,
        habits=Habits(),
        pace=Pace(rounds=5, seconds=10.0, warmup_s=2.0),
        victim_keys=(ACME,),
        other_keys=others,
        slots_left=slots_left,
    )


class Nobody:
    """Is never asked."""

    async def ask(self, tenant: TenantId, model: str, *_: object, **__: object) -> Answer:
        raise AssertionError(f"{tenant} asked for {model}")


def reached(**models: tuple[str, ...]) -> Reached:
    return Reached(Nobody(), {TenantId(f"{name}.key"): each for name, each in models.items()}, FakeClock())


def test_victims_have_all_their_models_hot_and_the_other_key_is_greedy() -> None:
    cast = settings(CROWD).cast(reached(acme=("a", "b"), crowd=("x", "y", "z")))
    assert cast == Cast(hot={client_of(ACME): ("a", "b")}, greedy=client_of(CROWD), many=("x", "y", "z"))
    assert cast.num_hot == 2


def test_what_fits_the_slots_is_nothing_to_measure() -> None:
    with pytest.raises(InvalidRequestError, match=r"2 adapters of crowd\.key fit the 2 slots left"):
        settings(CROWD).cast(reached(acme=("a",), crowd=("x", "y")))
    with pytest.raises(InvalidRequestError, match=r"acme\.key may call no adapter"):
        settings(CROWD).cast(reached(acme=(), crowd=("x", "y", "z")))


def test_a_run_that_can_not_end_in_time_is_not_begun() -> None:
    planned_s = settings(CROWD).planned_s(num_kinds=2, num_uncounted=2)
    assert planned_s == 12 * 12.0

    async def measure(_: Reached) -> None:
        raise AssertionError

    with pytest.raises(InvalidRequestError, match=r"take 2\.4 minutes, and 1 are allowed"):
        run_on_fleet(NOWHERE, (), planned_s, measure)


def test_points_of_the_cliff_go_as_far_as_there_are_adapters() -> None:
    assert points_of(num_hot=2, slots_left=6, num_crowd=38) == [4, 8, 16, 24, 40]
    assert points_of(num_hot=2, slots_left=6, num_crowd=10) == [4, 8, 12]
    assert points_of(num_hot=4, slots_left=1, num_crowd=2) == [5, 6]


def test_cold_adapters_are_asked_for_as_their_keys_take_turns() -> None:
    one, two = TenantId("one"), TenantId("two")
    assert in_turn({one: ("a", "b", "c"), two: ("x",)}) == [(one, "a"), (two, "x"), (one, "b"), (one, "c")]
