"""What `hotset bench simulate` prints of clean and of broken seeds."""

import dataclasses

from hotset.bench.simulate import Settings, run, story
from hotset.planner.simulate import run_seed
from hotset.sim.faults import Fault
from tests.support.fake_clock import FakeClock


def test_clean_seeds_are_counted() -> None:
    said: list[str] = []
    report, is_clean = run(Settings(seeds=range(19, 21), num_events=300), FakeClock(), said.append)
    assert is_clean
    figures = report.sections[0].rows[0].figures
    assert figures["seeds"] is not None
    assert figures["seeds"].median == 2
    assert figures["clean"] == figures["seeds"]
    assert "completed" in report.notes[0]
    assert said == ["1 seeds, 1 clean"]
    assert not report.appendix


def test_one_seed_is_shown_with_its_last_events() -> None:
    report, _ = run(Settings(seeds=range(3, 4), num_events=300, with_story=True), FakeClock())
    assert report.appendix.startswith("seed 3: every rule held\n  last events:")
    assert "log digest" in report.appendix


def test_a_broken_seed_says_rule_event_faults_and_how_to_run_it_again() -> None:
    fault = Fault("no such fault", "agent-0", 0.9, 0.1)
    verdict = run_seed(3, 300, (fault,))
    text = story(verdict, Settings(num_events=300))
    assert text.startswith("seed 3: broken: KeyError\n")
    assert f"at event {verdict.num_events}," in text
    assert "again: hotset bench simulate --seed 3 --events 300" in text
    assert str(fault) in text


def test_the_fewest_faults_are_looked_for_where_asked() -> None:
    fault = Fault("no such fault", "agent-0", 0.9, 0.1)
    other = Fault("slow disk", "agent-0", 0.2, 0.1, 2.0)
    text = story(run_seed(3, 300, (other, fault)), Settings(num_events=300, with_cut_plan=True))
    assert "fewest faults" in text
    assert str(fault) in text
    assert str(other) not in text.partition("fewest faults")[2]


def test_no_further_seed_is_begun_once_the_time_is_up() -> None:
    report, _ = run(Settings(seeds=range(9), num_events=50, longest_s=0.0), FakeClock())
    assert report.sections[0].rows[0].figures["seeds"] is not None
    assert dataclasses.is_dataclass(Settings)
