"""The scenarios from end to end: real agents, stores and signatures around the fake engine, in virtual time."""

import gzip
from pathlib import Path

from hotset.bench import cliff, fairness, storm
from hotset.bench.crowd import Habits
from hotset.bench.sharing import Load, read_trace
from hotset.bench.stats import Spread
from hotset.bench.traces import ARENA_FILE
from hotset.bench.workers import EngineChoice
from hotset.core.ids import TenantId
from hotset.planner.fairness_scenario import Arrival


def test_a_run_in_virtual_time_shows_the_cliff_and_who_is_spared_it() -> None:
    settings = cliff.Settings(
        engine=EngineChoice(), habits=Habits(in_flight=8), rounds=1, seconds=2.0, warmup_s=1.0, num_slots=4
    )
    report, _ = cliff.run(settings)
    worst = [section.rows[-1].figures["ratio"] for section in report.sections]
    assert worst[0] is not None
    assert worst[1] is not None
    assert worst[0].median < 2.0 < 4.0 < worst[1].median


def test_a_storm_in_virtual_time_keeps_its_promises() -> None:
    settings = storm.Settings(engine=EngineChoice(), rounds=1, seconds=5.0, cold_adapters=60, drill_adapters=12)
    report = storm.run(settings)
    (budgeted,), (missed,) = (section.rows for section in report.sections[:2])
    shown = {key: figure.median for key, figure in (budgeted.figures | missed.figures).items() if figure is not None}
    assert shown["admitted"] + shown["refused"] == 60
    assert shown["refused"] > 0
    assert shown["in_budget"] == 100.0
    assert shown["returned"] >= 90.0
    assert shown["error"] <= 25.0
    assert (shown["answered"], shown["fetches"], shown["loads"]) == (300.0, 1.0, 1.0)


def test_tenants_who_all_want_more_than_there_is_are_served_alike_in_virtual_time(tmp_path: Path) -> None:
    lines = [f"{number * 0.1:.1f},{number % 3 if number % 4 else 0},10,20\n" for number in range(200)]
    with gzip.open(tmp_path / ARENA_FILE, "wt") as file:
        file.writelines(["arrival_s,tenant,input_tokens,output_tokens\n", *lines])
    settings = fairness.Settings(engine=EngineChoice(), traces_folder=tmp_path, minutes=0.5, rounds=2, sequences_max=2)
    report = fairness.run(settings)
    section, loading = report.sections[0], report.sections[2]
    fair, first_come = (row.figures["gap"] for row in section.rows)
    bound = section.rows[0].figures["bound"]
    assert fair is not None
    assert first_come is not None
    assert bound is not None
    assert fair.median <= bound.median
    assert fair.median < first_come.median
    assert fair.rounds == 2
    assert section.rows[0].figures["slotless"] == Spread(median=0.0, low=0.0, high=0.0, rounds=2)
    waited = loading.rows[0].figures["slotless"]
    assert waited is not None
    assert waited.median > 0.0


def test_a_shortened_trace_asks_for_less_of_each_and_as_often(tmp_path: Path) -> None:
    with gzip.open(tmp_path / ARENA_FILE, "wt") as file:
        file.writelines(
            ["arrival_s,tenant,input_tokens,output_tokens\n", "0.0,1,100,8\n", "2.0,2,0,0\n", "3.0,3,6,30\n"]
        )
    asked = [(each.at_s, each.input_tokens, each.output_tokens) for each in read_trace(tmp_path, 4.0).arrivals]
    assert asked == [(0.0, 25, 2), (2.0, 0, 1), (3.0, 2, 8)]


def test_pieces_of_a_load_follow_each_other_and_begin_anew_at_its_end() -> None:
    arrivals = [Arrival(5.0 + number, TenantId("acme"), 1, 10) for number in range(5)]
    load = Load("load", arrivals, 1)
    # 50 tokens in 4 s, at 6.25 a second: twice as slow, each second one in 2 s.
    assert [each.at_s for each in fairness.piece(load, 6.25, 0, 5.0)] == [0.0, 2.0, 4.0]
    assert [each.at_s for each in fairness.piece(load, 6.25, 1, 5.0)] == [1.0, 3.0, 3.0]
