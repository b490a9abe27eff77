"""Homes: one for a rare version, more under load, moved seldom, and always where a version can be served."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.core.ids import PoolName, WorkerId
from hotset.routing.homes import plan_homes
from hotset.routing.placements import HomesSettings, HomeWorker, Move, Plan, Wanted, published, resumed
from hotset.routing.replicas import count_homes
from tests.support.fleets import home_worker, wanted

RULES = HomesSettings()
THREE = [home_worker("a"), home_worker("b"), home_worker("c")]
FOUR = [*THREE, home_worker("d")]
MANY = [wanted(f"hs-{number}") for number in range(200)]


def planned(
    before: Plan, asked: Sequence[Wanted], workers: Sequence[HomeWorker], now_s: float, rules: HomesSettings = RULES
) -> tuple[Plan, list[Move]]:
    return plan_homes(before, asked, workers, now_s=now_s, settings=rules)


def settled(asked: Sequence[Wanted], workers: Sequence[HomeWorker], *, until_s: float = 600.0) -> Plan:
    """The plan that a steady demand leads to, two seconds at a time."""
    plan = Plan()
    for step in range(int(until_s / 2)):
        plan, _ = planned(plan, asked, workers, 2.0 * step)
    return plan


def test_every_version_gets_one_home_at_once() -> None:
    plan, moves = planned(Plan(), MANY, THREE, 0.0)
    assert all(len(homes) == 1 for homes in published(plan).values())
    assert len(published(plan)) == len(MANY)
    assert {move.cause for move in moves} == {"new"}


def test_a_version_that_no_worker_takes_has_no_home() -> None:
    plan, moves = planned(Plan(), [wanted("hs-1", rank=64)], THREE, 0.0)
    assert published(plan) == {}
    assert moves == []


def test_a_version_goes_to_the_lowest_rank_class_that_takes_it() -> None:
    workers = [home_worker("low", rank_class=16), home_worker("high", rank_class=64)]
    plan, _ = planned(Plan(), [wanted("hs-1", rank=8), wanted("hs-2", rank=32)], workers, 0.0)
    assert published(plan) == {"hs-1": ("low",), "hs-2": ("high",)}


def test_a_version_stays_in_the_lowest_rank_class_that_takes_it_however_busy_that_is() -> None:
    workers = [home_worker("low", rank_class=16), *(home_worker(name, rank_class=64) for name in "abc")]
    plan = settled([wanted("hs-1", rank=8, num_in_flight=500), wanted("hs-2", rank=32, num_in_flight=500)], workers)
    assert published(plan) == {"hs-1": ("low",), "hs-2": published(plan)["hs-2"]}
    assert set(published(plan)["hs-2"]) == {"a", "b", "c"}


@given(
    st.lists(st.sampled_from([8, 16, 32, 64]), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 70), st.integers(0, 60)), min_size=1, max_size=8),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_home_is_in_the_lowest_rank_class_that_takes_its_version(
    classes: list[int], asked: list[tuple[int, int]]
) -> None:
    workers = [home_worker(f"w{number}", rank_class=rank_class) for number, rank_class in enumerate(classes)]
    versions = [wanted(f"hs-{number}", rank=rank, num_in_flight=busy) for number, (rank, busy) in enumerate(asked)]
    homes = published(settled(versions, workers, until_s=60.0))
    for version in versions:
        lowest = min((rank_class for rank_class in classes if rank_class >= version.rank), default=None)
        found = {classes[int(worker[1:])] for worker in homes.get(version.version, ())}
        assert found == (set() if lowest is None else {lowest})


def test_a_lower_rank_class_that_comes_later_takes_over_by_moves_not_at_once() -> None:
    high, low = home_worker("high", rank_class=64), home_worker("low", rank_class=16)
    plan, _ = planned(Plan(), [wanted("hs-1")], [high], 0.0)
    plan, moves = planned(plan, [wanted("hs-1")], [high, low], 2.0)
    assert moves == []
    _, moves = planned(plan, [wanted("hs-1")], [high, low], RULES.swap_after_s)
    assert [(move.cause, move.added, move.removed) for move in moves] == [("swap", ("low",), ("high",))]


def test_a_pool_is_served_by_its_own_workers_only() -> None:
    workers = [*THREE, home_worker("own", pool="big")]
    asked = [*MANY, *(wanted(each.version, pool="big", num_in_flight=500) for each in MANY)]
    plan, _ = planned(Plan(), asked, workers, 0.0)
    assert {home for (pool, _), each in plan.placements.items() if pool == "big" for home in each.homes} == {"own"}
    assert "own" not in {home for (pool, _), each in plan.placements.items() if pool != "big" for home in each.homes}
    assert all(homes[-1] == "own" or homes[0] == "own" for homes in published(plan).values())


def test_a_worker_that_leaves_moves_only_its_own_versions_and_at_once() -> None:
    before, _ = planned(Plan(), MANY, FOUR, 0.0)
    after, moves = planned(before, MANY, THREE, 1.0)
    for place, placement in before.placements.items():
        if placement.homes != ("d",):
            assert after.placements[place] == replace(placement)
    assert {move.removed for move in moves} == {("d",)}
    assert {move.cause for move in moves} == {"lost"}
    assert len(moves) == sum(placement.homes == ("d",) for placement in before.placements.values())


def test_a_worker_that_comes_takes_over_its_share_within_the_budget() -> None:
    plan, _ = planned(Plan(), MANY, THREE, 0.0)
    num_moves = 0
    for second in range(2, 62, 2):
        plan, moves = planned(plan, MANY, FOUR, float(second))
        assert {move.cause for move in moves} <= {"swap"}
        assert all(move.added == ("d",) for move in moves)
        num_moves += len(moves)
    assert num_moves == RULES.moves_per_minute
    assert published(settled(MANY, FOUR)) == published(planned(Plan(), MANY, FOUR, 0.0)[0])


def test_versions_that_are_in_no_store_move_for_free() -> None:
    cold = [replace(each, is_cold=True) for each in MANY]
    plan, _ = planned(Plan(), cold, THREE, 0.0)
    plan, moves = planned(plan, cold, FOUR, 1.0)
    assert published(plan) == published(planned(Plan(), cold, FOUR, 0.0)[0])
    assert moves
    assert plan.moves_left == RULES.moves_per_minute


def test_homes_spread_over_the_workers() -> None:
    counts = Counter(home for homes in published(settled(MANY, FOUR, until_s=4)).values() for home in homes)
    assert all(abs(count - 50) < 4 * (200 * 0.25 * 0.75) ** 0.5 for count in counts.values()), counts


def test_a_busy_version_gets_as_many_homes_as_its_load_takes() -> None:
    plan = settled([wanted("hs-busy", num_in_flight=20), *MANY], FOUR)
    homes = published(plan)
    assert len(homes["hs-busy"]) == 3  # 20 in flight, 8 a home
    assert all(len(homes[each.version]) == 1 for each in MANY)


def test_a_busy_version_never_has_more_homes_than_workers_or_than_is_allowed() -> None:
    busy = [wanted("hs-busy", num_in_flight=1000)]
    assert len(published(settled(busy, FOUR))["hs-busy"]) == 4
    plan = Plan()
    for step in range(100):
        plan, _ = planned(plan, busy, FOUR, 2.0 * step, replace(RULES, homes_max=2))
    assert len(published(plan)["hs-busy"]) == 2


def test_a_load_that_swings_around_a_limit_moves_nothing() -> None:
    plan = settled([wanted("hs-1", num_in_flight=9)], FOUR)
    assert len(published(plan)["hs-1"]) == 2
    num_moves = 0
    for step in range(600):
        load = 6 if step % 40 < 20 else 9
        plan, moves = planned(plan, [wanted("hs-1", num_in_flight=load)], FOUR, 600.0 + 2.0 * step)
        num_moves += len(moves)
    assert num_moves == 0


def test_homes_are_given_up_one_at_a_time_after_they_stood() -> None:
    plan = settled([wanted("hs-1", num_in_flight=30)], FOUR)
    assert len(published(plan)["hs-1"]) == 4
    seen: list[float] = []
    for step in range(300):
        plan, moves = planned(plan, [wanted("hs-1")], FOUR, 600.0 + 2.0 * step)
        assert len(moves) <= 1
        seen += [2.0 * step for _ in moves]
    assert len(published(plan)["hs-1"]) == 1
    assert all(later - sooner >= RULES.shrink_after_s for sooner, later in itertools.pairwise(seen))


def test_the_busiest_versions_move_first() -> None:
    asked = [wanted(f"hs-{number}", num_in_flight=10 + number) for number in range(9)]
    plan = Plan()
    plan, _ = planned(plan, asked, FOUR, 0.0)
    tight = replace(RULES, moves_per_minute=3.0)
    plan, moves = planned(plan, asked, FOUR, 60.0, tight)
    assert [move.version for move in moves] == ["hs-8", "hs-7", "hs-6"]


def test_a_planner_that_starts_anew_goes_on_from_what_was_published() -> None:
    busy = [wanted("hs-busy", num_in_flight=20), *MANY]
    before = settled(busy, FOUR)
    pools = {worker.worker: worker.pool for worker in FOUR}
    after = resumed(published(before), pools, 1000.0)
    assert published(after) == published(before)
    _, moves = planned(after, busy, FOUR, 1002.0)
    assert moves == []


def test_a_planner_that_starts_anew_forgets_workers_that_are_gone() -> None:
    after = resumed({"hs-1": ("a", "gone")}, {WorkerId("a"): PoolName("default")}, 0.0)  # type: ignore[dict-item]
    assert published(after) == {"hs-1": ("a",)}


def test_a_clock_that_stands_or_goes_back_changes_no_load() -> None:
    plan = settled([wanted("hs-1", num_in_flight=9)], FOUR)
    load = next(iter(plan.placements.values())).load
    plan, _ = planned(plan, [wanted("hs-1")], FOUR, 0.0)
    assert next(iter(plan.placements.values())).load == load


WORKERS = st.lists(
    st.builds(
        home_worker,
        st.sampled_from("abcdefgh"),
        pool=st.sampled_from(["default", "big"]),
        rank_class=st.sampled_from([8, 64]),
        num_slots=st.integers(1, 16),
    ),
    max_size=6,
    unique_by=lambda each: each.worker,
)
WANTED = st.lists(
    st.builds(
        wanted,
        st.integers(0, 12).map("hs-{}".format),
        pool=st.sampled_from(["default", "big"]),
        rank=st.sampled_from([4, 16, 128]),
        num_in_flight=st.integers(0, 60),
        cold=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda each: (each.pool, each.version),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(WANTED, WORKERS, st.floats(0.0, 200.0)), min_size=1, max_size=8), st.integers(0, 2**16))
def test_whatever_comes_the_invariants_hold(
    history: list[tuple[list[Wanted], list[HomeWorker], float]], seed: int
) -> None:
    rules, shuffle = replace(RULES, homes_max=3, moves_per_minute=5.0), random.Random(seed)
    plan = other = Plan()
    now_s = 0.0
    for asked, workers, passed_s in history:
        now_s += passed_s
        before = plan
        plan, moves = planned(before, asked, workers, now_s, rules)
        other, _ = planned(
            other, shuffle.sample(asked, len(asked)), shuffle.sample(workers, len(workers)), now_s, rules
        )
        assert plan == other
        by_id = {worker.worker: worker for worker in workers}
        for each in asked:
            homes = plan.placements[(each.pool, each.version)].homes
            taking = [w for w in workers if w.pool == each.pool and w.rank_class >= each.rank]
            assert len(set(homes)) == len(homes) <= 3
            assert bool(homes) == bool(taking)
            assert all(by_id[home].pool == each.pool and by_id[home].rank_class >= each.rank for home in homes)
        paid = [move for move in moves if move.cause in ("grow", "shrink", "swap")]
        free = {(each.pool, each.version) for each in asked if each.is_cold}
        assert len([move for move in paid if (move.pool, move.version) not in free]) <= 5
        assert 0 <= plan.moves_left <= 5.0
        assert set(plan.placements) == {(each.pool, each.version) for each in asked}


@given(st.integers(0, 9), st.floats(0.0, 50.0), st.integers(0, 9))
def test_the_number_of_homes_is_bounded_and_falls_one_at_a_time(now: int, load: float, most: int) -> None:
    count = count_homes(now, load, most=most, shrink_at=0.6)
    assert 0 <= count <= most
    assert count >= min(now - 1, most)
    assert count == min(now - 1, most) or count >= min(load, most)
    if load <= 1.0 and now <= 1:
        assert count == min(1, most)
