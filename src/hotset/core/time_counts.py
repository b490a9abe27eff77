"""Times as counts of buckets that are 2% wide, so that those of several processes add up to the quantiles of all.

Quantiles of quantiles mean nothing, and averages of them less; counts of buckets can be added. What is read from them
is off by at most 1%.
"""

import math
from collections.abc import Iterable, Mapping

#: How much wider the upper edge of a bucket is than the lower one.
_WIDTH = 1.02
_SCALE = 1.0 / math.log(_WIDTH)
#: What is shorter counts as this long.
_SHORTEST_S = 1e-6

#: Bucket → how many times fell into it.
TimeCounts = dict[int, int]


def bucket_of(seconds: float) -> int:
    """Return the bucket that a time falls into."""
    return math.floor(math.log(max(seconds, _SHORTEST_S)) * _SCALE)


def merged_counts(parts: Iterable[Mapping[int, int]]) -> TimeCounts:
    """Return the sums of counts."""
    sums: TimeCounts = {}
    for part in parts:
        for bucket, count in part.items():
            sums[bucket] = sums.get(bucket, 0) + count
    return sums


def quantile(counts: Mapping[int, int], share: float) -> float:
    """Return the time in seconds, to 1%, that this share of all times does not pass, nearest rank.

    Args:
        counts: At least one time.
        share: From 0 to 1.
    """
    rank = max(1, math.ceil(share * sum(counts.values())))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return _WIDTH ** (bucket + 0.5)
    raise AssertionError("there is no time")
