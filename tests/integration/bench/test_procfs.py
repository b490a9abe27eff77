import os
from pathlib import Path

import pytest

from hotset.bench.procfs import CpuTime, machine_words, parse_stat, tree_cpu

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid: int, parent: int, user: int, system: int, name: str = "python") -> str:
    return f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 0"


def test_a_name_with_spaces_and_parentheses_is_skipped() -> None:
    assert parse_stat(stat(7, 3, TICKS, TICKS, "a ) (b")) == (7, 3, 2.0)


def test_the_tree_is_the_process_and_all_below_it(tmp_path: Path) -> None:
    for pid, parent, user in ((10, 1, 1), (11, 10, 2), (12, 11, 4), (20, 1, 8)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat(pid, parent, user * TICKS, 0))
    (tmp_path / "30").mkdir()  # one that ended while it was looked at
    (tmp_path / "meminfo").write_text("x")
    assert tree_cpu(10, tmp_path) == CpuTime(1.0, 6.0)
    assert tree_cpu(10, tmp_path).since(CpuTime(0.5, 2.0)).total_s == pytest.approx(4.5)
    with pytest.raises(ProcessLookupError):
        tree_cpu(99, tmp_path)


def test_the_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Fast 9\n\nprocessor : 1\nmodel name\t: Fast 9\n")
    (tmp_path / "loadavg").write_text("1.50 1.00 0.50 1/2 3\n")
    assert machine_words(tmp_path) == "2 x Fast 9, load 1.50 before the run"
    (tmp_path / "cpuinfo").write_text("")
    assert "unnamed processor" in machine_words(tmp_path)
