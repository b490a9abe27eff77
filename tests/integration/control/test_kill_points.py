"""A process killed while it publishes and approves leaves a whole version or nothing (a few points; more by hand).

``python -m tests.acceptance.kill_points --points 50`` goes on.
"""

import random
from pathlib import Path

import pytest

from tests.support.kill_points import check, count_points, kill_at, prepare

SEED = 20
#: What version 2 may be when the process died within a step: the state before it, or the one after.
POSSIBLE = {
    "push": ("absent", "verified"),
    "prove": ("verified", "proved"),
    "approve": ("proved", "approved"),
    "promote": ("approved", "active"),
}


@pytest.mark.timeout(300)
def test_killed_at_a_few_points(tmp_path: Path) -> None:
    prepared, scratch = tmp_path / "prepared", tmp_path / "scratch"
    prepare(prepared)
    began = count_points(prepared, scratch)
    assert list(began) == ["open", "push", "prove", "approve", "promote", "close", "done"]
    assert check(scratch) == "active"
    points = random.Random(SEED).sample(range(began["push"] + 1, began["close"]), 4)
    for point in points:
        step = kill_at(prepared, scratch, point)
        state = check(scratch)
        assert state in POSSIBLE[step], (point, step, state)
