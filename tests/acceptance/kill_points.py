"""Kill a process at many points of push, prove, approve and promote; restart; check; print a line for each.

python -m tests.acceptance.kill_points --points 50 --seed 1
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.kill_points import check, count_points, kill_at, prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepared, scratch = Path(folder) / "prepared", Path(folder) / "scratch"
        prepare(prepared)
        began = count_points(prepared, scratch)
        print(f"points at which each step begins: {began}; seed {arguments.seed}")
        outcomes: Counter[tuple[str, str]] = Counter()
        for point in _choose(began, arguments.points, random.Random(arguments.seed)):
            step = kill_at(prepared, scratch, point)
            state = check(scratch)
            outcomes[step, state] += 1
            print(f"point {point:5d}: killed during {step:8s} version 2 was {state}, finished after the restart")
        print(f"{arguments.points} kills; after each the store verified and nothing was half there or lost")
        for (step, state), count in sorted(outcomes.items()):
            print(f"  {count:3d} x {step} -> {state}")


def _choose(began: dict[str, int], num_points: int, rng: random.Random) -> list[int]:
    """Choose a fifth of the points while the state folder is being opened, the rest while a version is being made."""
    num_opening = num_points // 5
    opening = rng.sample(range(1, began["push"] + 1), num_opening)
    return opening + rng.sample(range(began["push"] + 1, began["close"]), num_points - num_opening)


if __name__ == "__main__":
    main()
