"""Exact percentiles and the spread of a figure over rounds; nothing here is estimated or binned."""

import math
from collections.abc import Iterable, Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the rounds of a run: its median, and the smallest and largest value seen."""

    median: float
    low: float
    high: float
    rounds: int


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: the smallest sample that `percent` of all samples do not exceed.

    Args:
        samples: At least one value, in any order.
        percent: From 0, excluded, to 100.

    Raises:
        ValueError: no samples, or a percent out of range.
    """
    if not samples or not 0 < percent <= 100:
        raise ValueError(f"percentile {percent} of {len(samples)} samples")
    return sorted(samples)[math.ceil(percent / 100 * len(samples)) - 1]


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle ones.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("median of no values")
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values: Iterable[float]) -> Spread | None:
    """Return the spread of one value a round; None where no round has one."""
    seen = list(values)
    return Spread(median=median(seen), low=min(seen), high=max(seen), rounds=len(seen)) if seen else None


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread | None:
    """Return the spread of round-by-round ratios, so that both sides of each come from the same minutes.

    Rounds in which either side has no value, or the lower side is 0, must have been left out by the caller.
    """
    return spread(top / bottom for top, bottom in zip(over, under, strict=True))


#: One-sided 95% quantiles of Student's t by degrees of freedom, to two digits; beyond the table the last one is used.
_T_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75, 1.75, 1.74, 1.73)


def upper_bound(ratios: Sequence[float]) -> float:
    """Return the upper 95% bound of the mean ratio, taken over the logarithms of the rounds' ratios.

    Args:
        ratios: At least two, all above 0.

    Raises:
        ValueError: fewer than two.
    """
    if len(ratios) < 2:
        raise ValueError("a bound needs two rounds")
    logs = [math.log(each) for each in ratios]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((each - mean) ** 2 for each in logs) / (len(logs) - 1))
    t = _T_95[min(len(logs) - 2, len(_T_95) - 1)]
    return math.exp(mean + t * deviation / math.sqrt(len(logs)))
