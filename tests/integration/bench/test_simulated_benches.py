"""The simulated rotation and fairness benches, end to end on small settings."""

import gzip
from pathlib import Path

import pytest

from hotset.bench import simulated
from hotset.bench.traces import ARENA_FILE
from hotset.core.errors import ConfigError
from hotset.planner.calibration import Calibration
from hotset.planner.rotation_scenario import RotationShape


def test_the_rotation_report_has_the_three_kinds_and_a_bound() -> None:
    settings = simulated.RotationSettings(rounds=2, shape=RotationShape(seconds=6.0, warmup_s=2.0))
    report = simulated.run_rotation(settings)
    assert [row.side for row in report.sections[0].rows] == ["control", "rotation", "rotation, plain LRU"]
    assert any("p99 ratio" in note for note in report.notes)


@pytest.mark.slow
def test_the_fairness_report_puts_two_queues_side_by_side_with_and_without_a_loud_tenant(tmp_path: Path) -> None:
    lines = ["arrival_s,tenant,input_tokens,output_tokens"]
    lines += [f"{0.5 * index},{index % 3},12,4" for index in range(60)]
    (tmp_path / ARENA_FILE).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    report = simulated.run_fairness(simulated.FairnessSettings(traces_folder=tmp_path))
    asked = ("3 tenants", "tenant-1 a hundred times")
    slots = ("all adapters in slots", "two adapters and one slot each")
    assert [section.title for section in report.sections] == [f"{load}, {words}" for words in slots for load in asked]
    for section in report.sections:
        fair = section.rows[0].figures
        assert fair["nearest"] is not None
        assert 0 < fair["nearest"].median <= 100


def test_a_calibration_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"step_s": [0.01, 0.02], "load_stall_s": 0.5}', encoding="utf-8")
    assert simulated.read_calibration(path) == Calibration(step_s=(0.01, 0.02), load_stall_s=0.5)
    assert simulated.read_calibration(None) == Calibration()


@pytest.mark.parametrize("text", ["no JSON", '{"step_s": "fast"}', '{"step_s": []}', '{"step_s": [0.0]}'])
def test_a_calibration_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "times.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"times\.json"):
        simulated.read_calibration(path)
