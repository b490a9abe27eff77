"""How many distinct adapters in the engine at a time pay, from what it made with each number of them. Pure.

More adapters in a batch make each step longer, fewer make requests for others wait. The number that pays is the largest
at which the engine still makes nearly as many tokens a second as it does at best.
"""

from collections.abc import Mapping

#: Of the best rate; below it an adapter more costs all others more than it brings.
SHARE = 0.8


def profitable_adapters(tokens_per_s: Mapping[int, float]) -> int | None:
    """Return the number of distinct adapters that pays; None where nothing was measured.

    Args:
        tokens_per_s: Number of distinct adapters in a full batch → tokens a second.
    """
    best = max(tokens_per_s.values(), default=0.0)
    return max((number for number, rate in tokens_per_s.items() if rate >= SHARE * best), default=None)
