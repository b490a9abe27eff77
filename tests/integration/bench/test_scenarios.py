"""The scenarios from end to end: real agents, stores and signatures around the fake engine, in virtual time."""

from hotset.bench import cliff
from hotset.bench.crowd import Habits
from hotset.bench.workers import EngineChoice


def test_a_run_in_virtual_time_shows_the_cliff_and_who_is_spared_it() -> None:
    settings = cliff.Settings(
        engine=EngineChoice(), habits=Habits(in_flight=8), rounds=1, seconds=2.0, warmup_s=1.0, num_slots=4
    )
    report, _ = cliff.run(settings)
    worst = [section.rows[-1].figures["ratio"] for section in report.sections]
    assert worst[0] is not None
    assert worst[1] is not None
    assert worst[0].median < 2.0 < 4.0 < worst[1].median
