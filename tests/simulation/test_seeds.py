"""Twenty fleets in virtual time, and those of which a rule once broke: every rule holds, and a seed is one run."""

import subprocess
import sys
from pathlib import Path

import pytest

from hotset.bench.simulate import Settings, run
from hotset.core.clock import SystemClock
from hotset.planner.simulate import run_seed

NUM_EVENTS = 5000
#: One seed a line, with what it found after it.
REGRESSIONS = Path(__file__).with_name("regressions.txt")
_DIGEST = "from hotset.planner.simulate import run_seed; print(run_seed({seed}, 2000).digest)"


def regression_seeds() -> list[int]:
    lines = REGRESSIONS.read_text(encoding="utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("seed", sorted({*range(20), *regression_seeds()}))
def test_every_rule_holds(seed: int) -> None:
    verdict = run_seed(seed, NUM_EVENTS)
    assert verdict.is_clean, "\n".join([f"seed {seed}: {verdict.message}", *verdict.last])
    assert verdict.num_events >= NUM_EVENTS
    assert verdict.endings.get("completed", 0) > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_is_one_run_in_every_process(seed: int) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST.format(seed=seed)],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert digests != {""}


def test_other_seeds_are_other_runs() -> None:
    assert run_seed(1, 300).digest != run_seed(2, 300).digest


def test_any_number_of_processes_finds_the_same_in_the_same_order() -> None:
    alone, together = (
        run(Settings(seeds=range(30, 34), num_events=400, with_story=True, num_processes=number), SystemClock())[0]
        for number in (1, 2)
    )
    assert together.appendix == alone.appendix
    assert together.notes == alone.notes


def test_no_process_begins_a_seed_once_the_time_is_up() -> None:
    report, is_clean = run(Settings(seeds=range(40), num_processes=2, longest_s=0.0), SystemClock())
    assert is_clean
    assert ", 0 run in" in report.setting["seeds"]
