"""How soon a version will probably be asked for again, learnt from its own gaps and everybody's.

Gaps between requests for one version are counted in bins a factor of two wide, older ones forgotten bit by bit.
Given how long ago the last request was, the bins that are still possible give the expected logarithm of the time that
remains. That tells bursts from steady use: a version whose gaps are either short or very long is given up once the
short ones are past. With Gamma and Weibull gaps as ServeGen found them (arXiv 2505.09999), knowing the true law wins
little more.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

from hotset.core.ids import EngineName

_SHORTEST_S = 0.01
_NUM_BINS = 28
#: What an observation keeps of its weight when the next one comes.
_KEPT = 0.98
_KEPT_OF_ALL = 0.9995
#: Observations that everybody's gaps count for beside a version's own.
_PRIOR_WEIGHT = 3.0
_MIDDLES_S = tuple(_SHORTEST_S * 2 ** (index + 0.5) for index in range(_NUM_BINS))
_LOG_MIDDLES = tuple(math.log(middle_s) for middle_s in _MIDDLES_S)


class _Gaps:
    """Weights by bin, with their sums from each bin on."""

    __slots__ = ("_kept", "log_sums", "sums", "weights")

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self.weights = [0.0] * _NUM_BINS
        #: From each bin on, the sum of the weights and of the weighted logarithms.
        self.sums = [0.0] * (_NUM_BINS + 1)
        self.log_sums = [0.0] * (_NUM_BINS + 1)

    def add(self, gap_s: float) -> None:
        seen = _bin(gap_s)
        total = log_total = 0.0
        for index in range(_NUM_BINS - 1, -1, -1):
            weight = self.weights[index] * self._kept + (index == seen)
            self.weights[index] = weight
            total += weight
            log_total += weight * _LOG_MIDDLES[index]
            self.sums[index], self.log_sums[index] = total, log_total


@dataclass(slots=True)
class _Use:
    asked_at_s: float
    gaps: _Gaps = field(default_factory=lambda: _Gaps(_KEPT))


class ReuseModel(Protocol):
    """Guesses when versions are asked for again."""

    def asked(self, name: EngineName, now_s: float) -> None:
        """Count a request for a version."""
        ...

    def forget(self, kept: frozenset[EngineName]) -> None:
        """Drop every version that is not among these."""
        ...

    def log_seconds(self, name: EngineName, now_s: float) -> float:
        """Return the expected natural logarithm of the seconds until a version is asked for again."""
        ...


class Reuse:
    """Estimates for all versions that were asked for and not forgotten."""

    def __init__(self) -> None:
        self._uses: dict[EngineName, _Use] = {}
        self._all = _Gaps(_KEPT_OF_ALL)

    def asked(self, name: EngineName, now_s: float) -> None:
        """Count a request for a version."""
        use = self._uses.get(name)
        if use is None:
            self._uses[name] = _Use(now_s)
            return
        gap_s = now_s - use.asked_at_s
        use.asked_at_s = now_s
        use.gaps.add(gap_s)
        self._all.add(gap_s)

    def forget(self, kept: frozenset[EngineName]) -> None:
        """Drop every version that is not among these."""
        self._uses = {name: use for name, use in self._uses.items() if name in kept}

    def log_seconds(self, name: EngineName, now_s: float) -> float:
        """Return the expected natural logarithm of the seconds until a version is asked for again.

        A version never asked for is infinitely far.
        """
        use = self._uses.get(name)
        if use is None:
            return math.inf
        age_s = now_s - use.asked_at_s
        first = _bin(age_s)
        own, everybody = use.gaps, self._all
        shared = _PRIOR_WEIGHT / everybody.sums[0] if everybody.sums[0] else 0.0
        weight = log_sum = 0.0
        # Where the age reaches into a bin, what remains of the gap is clearly less than the gap.
        for index in range(first, min(first + 2, _NUM_BINS)):
            each = own.weights[index] + shared * everybody.weights[index]
            weight += each
            log_sum += each * math.log(max(_MIDDLES_S[index] - age_s, _MIDDLES_S[index] / 4))
        rest = min(first + 2, _NUM_BINS)
        weight += own.sums[rest] + shared * everybody.sums[rest]
        log_sum += own.log_sums[rest] + shared * everybody.log_sums[rest]
        # Longer than ever seen: as long again.
        return log_sum / weight if weight > 1e-9 else math.log(max(age_s, _SHORTEST_S))


def _bin(gap_s: float) -> int:
    if gap_s <= _SHORTEST_S:
        return 0
    return min(_NUM_BINS - 1, int(math.log2(gap_s / _SHORTEST_S)))
