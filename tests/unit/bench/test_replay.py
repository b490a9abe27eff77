import random

import pytest

from hotset.bench.replay import Settings, describe, draws_of, replay, settings_words
from hotset.bench.replay_policies import Lru
from hotset.bench.replay_report import Described, Replayed, Shape, build_report, gap_closed, load_name
from hotset.bench.report import Report, Section
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.workloads import LocalityShape, Request, Workload
from tests.support.fake_clock import FakeClock

LETTERS = "ABACBAC"
WORKLOAD = Workload("letters", tuple(Request(2.0 * n, f"of-{name}", name, 1, 1) for n, name in enumerate(LETTERS)))


class Slow:
    """LRU that takes a second for each of its decisions, and nine for the last."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._lru = Lru(2)
        self.decisions_s: list[float] = []
        self.seen: list[tuple[float, str, int]] = []
        self.asked: list[tuple[float, str, str]] = []

    def see(self, at_s: float, adapter: str) -> None:
        self.seen.append((at_s, adapter, len(self.asked)))

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        self.asked.append((at_s, tenant, adapter))
        self._clock.advance(9.0 if len(self.asked) == len(LETTERS) else 1.0)
        return self._lru.ask(at_s, tenant, adapter)


def test_a_replay_asks_everything_in_order_counts_hits_and_times_decisions() -> None:
    clock = FakeClock()
    policy = Slow(clock)
    replayed = replay(WORKLOAD, policy, clock)
    assert replayed == Replayed(
        num_requests=7, num_hits=1, decision_p50_us=1e6, decision_p99_us=9e6, request_p99_us=9e6
    )
    assert (replayed.num_loads, replayed.hit_share) == (6, 1 / 7)
    assert policy.asked == [(2.0 * n, f"of-{name}", name) for n, name in enumerate(LETTERS)]
    assert policy.seen == []


def test_with_a_queue_in_sight_each_request_is_seen_so_long_before_it_is_asked_and_not_before() -> None:
    clock = FakeClock()
    policy = Slow(clock)
    replay(WORKLOAD, policy, clock, sight_s=4.0)
    # One every 2 s, seen 4 s before: at 0 the first three, then one each time as long as there are any.
    assert policy.seen == [(2.0 * n - 4.0, name, max(0, n - 2)) for n, name in enumerate(LETTERS)]


def test_a_policy_that_times_its_decisions_is_asked_for_them() -> None:
    clock = FakeClock()
    policy = Slow(clock)
    policy.decisions_s = [0.25, 0.5]
    told = replay(WORKLOAD, policy, clock)
    assert (told.decision_p50_us, told.decision_p99_us, told.request_p99_us) == (0.25e6, 0.5e6, 9e6)


def test_a_workload_is_described_by_size_time_and_popularity() -> None:
    assert describe(WORKLOAD) == Described(
        num_requests=7, num_adapters=3, duration_s=12.0, top_shares={1: 3 / 7, 8: 1.0, 16: 1.0}
    )


def replayed(hits: int) -> Replayed:
    return Replayed(num_requests=1000, num_hits=hits, decision_p50_us=1.0, decision_p99_us=2.0, request_p99_us=3.0)


def test_the_gap_closed_is_the_share_of_beladys_hits_over_lru() -> None:
    assert gap_closed(replayed(600), replayed(500), replayed(700)) == 0.5
    assert gap_closed(replayed(400), replayed(500), replayed(700)) == -0.5
    assert gap_closed(replayed(505), replayed(500), replayed(509)) is None


def a_report(seeds: int = 2) -> Report:
    described, outcomes = Outcomes[Described](), Outcomes[Replayed]()
    hits = {"lru": 500, "ours": 650, "belady": 700}
    for seed in range(seeds):
        described.add(Block(seed, "letters", ""), describe(WORKLOAD))
        for side, count in hits.items():
            ours = side == "ours"
            outcomes.add(Block(seed, load_name("letters", 8), side), replayed(count + 10 * seed * ours))
            outcomes.add(Block(seed, load_name("letters", 8, 1.0), side), replayed(count + 20 * (side != "belady")))
    return build_report({"rounds": "2"}, Shape(("letters",), (8,), (0.0, 1.0), tuple(hits)), described, outcomes)


def cell(section: Section, side: str, key: str) -> tuple[float, float, float]:
    figure = next(row for row in section.rows if row.side == side).figures[key]
    assert figure is not None
    return figure.low, figure.median, figure.high


def test_the_report_holds_every_policy_of_every_workload_with_its_spread() -> None:
    workloads, policies, sighted = a_report().sections
    assert cell(workloads, "letters", "num_adapters") == (3, 3, 3)
    assert cell(workloads, "letters", "rate")[1] == pytest.approx(7 / 12)
    assert cell(workloads, "letters", "top_1")[1] == pytest.approx(300 / 7)
    assert policies.title == "Letters in 8 slots"
    assert [row.side for row in policies.rows] == ["lru", "ours", "belady"]
    assert cell(policies, "ours", "hit_percent") == pytest.approx((65, 65.5, 66))
    assert cell(policies, "ours", "gap_closed_percent") == pytest.approx((75, 77.5, 80))
    assert cell(policies, "ours", "num_loads") == (340, 345, 350)
    assert cell(policies, "belady", "gap_closed_percent") == (100, 100, 100)
    assert cell(policies, "lru", "decision_p99_us") == (2, 2, 2)
    assert cell(policies, "lru", "request_p99_us") == (3, 3, 3)
    assert sighted.title == "Letters in 8 slots, 1 s of queue in sight"
    # Of the gap that there is without sight.
    assert cell(sighted, "lru", "gap_closed_percent") == (10, 10, 10)
    assert cell(sighted, "ours", "gap_closed_percent") == (85, 85, 85)


def test_the_report_reads_as_a_table() -> None:
    text = a_report().to_text()
    for shown in ("hotset bench replay", "Letters in 8 slots", "65.50", "gap closed", "decision p99"):
        assert shown in text
    assert "arena" not in text


def test_without_a_folder_of_traces_the_locality_mix_runs_alone_and_says_so() -> None:
    said: list[str] = []
    draws = draws_of(Settings(), said.append)
    assert list(draws) == ["locality"]
    assert len(said) == 1
    assert "locality mix runs alone" in said[0]
    assert "locality mix alone" in settings_words(Settings())["traces"]


def test_the_fitted_mix_gives_lru_the_hits_that_it_was_fitted_to() -> None:
    made = draws_of(Settings(locality=LocalityShape()), lambda _: None)["locality"](random.Random(1))
    lru = Lru(8)
    share = sum(lru.ask(one.at_s, one.tenant, one.adapter) for one in made.requests) / len(made.requests)
    assert share == pytest.approx(0.83, abs=0.01)
