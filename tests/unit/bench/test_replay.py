import random

import pytest

from hotset.bench.replay import Settings, describe, draws_of, replay, settings_words
from hotset.bench.replay_policies import Lru
from hotset.bench.replay_report import Described, Replayed, build_report, gap_closed, load_name
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
        self.asked: list[tuple[float, str, str]] = []

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        self.asked.append((at_s, tenant, adapter))
        self._clock.advance(9.0 if len(self.asked) == len(LETTERS) else 1.0)
        return self._lru.ask(at_s, tenant, adapter)


def test_a_replay_asks_everything_in_order_counts_hits_and_times_decisions() -> None:
    clock = FakeClock()
    policy = Slow(clock)
    replayed = replay(WORKLOAD, policy, clock)
    assert replayed == Replayed(num_requests=7, num_hits=1, p50_us=1e6, p99_us=9e6)
    assert (replayed.num_loads, replayed.hit_share) == (6, 1 / 7)
    assert policy.asked == [(2.0 * n, f"of-{name}", name) for n, name in enumerate(LETTERS)]


def test_a_workload_is_described_by_size_time_and_popularity() -> None:
    assert describe(WORKLOAD) == Described(
        num_requests=7, num_adapters=3, duration_s=12.0, top_shares={1: 3 / 7, 8: 1.0, 16: 1.0}
    )


def replayed(hits: int) -> Replayed:
    return Replayed(num_requests=1000, num_hits=hits, p50_us=1.0, p99_us=2.0)


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
            outcomes.add(Block(seed, load_name("letters", 8), side), replayed(count + 10 * seed * (side == "ours")))
    return build_report({"rounds": "2"}, ("letters",), (8,), tuple(hits), described, outcomes)


def cell(section: Section, side: str, key: str) -> tuple[float, float, float]:
    figure = next(row for row in section.rows if row.side == side).figures[key]
    assert figure is not None
    return figure.low, figure.median, figure.high


def test_the_report_holds_every_policy_of_every_workload_with_its_spread() -> None:
    workloads, policies = a_report().sections
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
