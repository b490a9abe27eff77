"""40 adapters under a skewed demand on 3, then 4, then 3 workers: few moves, hot homes, no worker far above its part.

What came out for seeds 0 to 5 when this was written: 92 to 97% of requests met their version in a slot (76 to 81%
where the worker is drawn at random), 10 to 21 moves after a fourth worker came, 7 to 9 at once when it went, and the
busiest worker had 1.3 to 1.8 times the mean at the end, where one adapter alone makes 1.5.
"""

from collections import Counter
from itertools import pairwise

import pytest

from hotset.core.ids import WorkerId
from hotset.routing.burdens import Burdens
from hotset.routing.placements import HomesSettings, Placement
from tests.support.fleets import home_worker
from tests.unit.routing.fleet_model import ModelFleet, Phase

RULES = HomesSettings()


@pytest.fixture(scope="module", params=[0, 5])
def phases(request: pytest.FixtureRequest) -> list[Phase]:
    fleet = ModelFleet(seed=request.param)
    return [fleet.run(names, seconds=seconds) for names, seconds in (("abc", 150), ("abcd", 180), ("abc", 150))]


@pytest.mark.parametrize("seed", [0])
def test_most_requests_meet_their_version_in_a_slot_and_far_more_than_by_chance(phases: list[Phase], seed: int) -> None:
    by_chance = ModelFleet(seed=seed).run("abc", seconds=150, random_pick=True)
    for phase in phases:
        assert phase.share_resident > 0.9
        assert phase.share_resident > by_chance.share_resident + 0.08


def test_a_worker_that_comes_takes_over_its_part_and_little_else_moves(phases: list[Phase]) -> None:
    _, grown, _ = phases
    causes = Counter(move.cause for move in grown.moves)
    assert causes.keys() <= {"swap", "grow", "shrink"}
    assert 4 <= sum(move.added == ("d",) for move in grown.moves) <= 20  # of 40 versions a quarter is its part
    assert causes.total() <= 30
    assert grown.by_worker[WorkerId("d")] > 0


def test_a_worker_that_goes_moves_its_own_versions_at_once_and_hardly_another(phases: list[Phase]) -> None:
    _, _, shrunk = phases
    lost = [move for move in shrunk.moves if move.cause == "lost"]
    assert lost
    assert all(move.removed == ("d",) for move in lost)
    assert len(shrunk.moves) - len(lost) <= 12


def test_no_worker_bears_much_more_than_one_version_alone_brings_it(phases: list[Phase]) -> None:
    assert phases[-1].spread <= 1.3 * phases[-1].spread_min


def test_rare_versions_stay_at_home(phases: list[Phase]) -> None:
    for phase in phases:
        moves = Counter(move.version for move in phase.moves)
        asked = Counter(name for name, _ in phase.num_by_version_and_worker)
        total = Counter[str]()
        for (name, _), count in phase.num_by_version_and_worker.items():
            total[name] += count
        for name, num_workers in asked.items():
            if total[name] < phase.num_requests / 100:
                assert num_workers <= 1 + moves[name], name


def test_a_worker_may_keep_more_than_it_may_take() -> None:
    a, b = WorkerId("a"), WorkerId("b")
    workers = [home_worker("a"), home_worker("b")]
    burdens = Burdens(workers, [Placement((a,), load=6.0), Placement((b,), load=2.0)], RULES)  # a part is 4
    assert [burdens.is_full(a, share, is_home=False) for share in (0.4, 0.6)] == [False, True]
    assert [burdens.is_full(b, share, is_home=False) for share in (2.7, 2.9)] == [False, True]
    assert [burdens.is_full(b, share, is_home=True) for share in (4.3, 4.5)] == [False, True]
    burdens.take(Placement((a,), load=6.0))
    assert not burdens.is_full(a, 4.7, is_home=False)


def test_a_larger_worker_may_bear_more() -> None:
    small, large = home_worker("a", num_slots=4), home_worker("b", num_slots=12)
    burdens = Burdens([small, large], [Placement((WorkerId("c"),), load=8.0)], RULES)  # parts of 2 and 6
    assert [burdens.is_full(each.worker, 3.0, is_home=False) for each in (small, large)] == [True, False]


def test_homes_of_a_steady_demand_come_to_rest() -> None:
    fleet = ModelFleet(seed=3)
    fleet.run("abc", seconds=120)
    counts = [len(fleet.run("abc", seconds=60).moves) for _ in range(3)]
    assert all(later <= sooner + 3 for sooner, later in pairwise(counts))
    assert counts[-1] <= 4
