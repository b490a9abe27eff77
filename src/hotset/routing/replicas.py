"""How many homes a version's load takes: as few as will do, with a gap between giving one and taking one back."""

import math


def count_homes(now: int, load: float, *, most: int, shrink_at: float) -> int:
    """Return how many homes a version should have.

    Args:
        now: How many it has.
        load: Its load, in homes that it would fill.
        most: How many it may have; 0 where no worker suits it.
        shrink_at: One is given up where the others would be filled to less than this, from 0 to 1.
    """
    needed = max(1, math.ceil(load))
    if needed < now and load >= (now - 1) * shrink_at:
        needed = now
    return min(max(needed, now - 1), most)
