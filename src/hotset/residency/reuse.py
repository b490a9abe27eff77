"""How soon a version will probably be asked for again, learnt from its own gaps and everybody's.

Gaps between requests for one version are counted in bins a factor of two wide, older ones forgotten bit by bit.
Given how long ago the last request was, the bins that are still possible give the expected logarithm of the time that
remains: two sums kept for each bin, so that an estimate is a few reads. That tells bursts from steady use: a version
whose gaps are either short or very long is given up once the short ones are past. With Gamma and Weibull gaps as
ServeGen found them (arXiv 2505.09999), knowing the true law wins little more.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import frexp
from typing import Protocol

from hotset.core.ids import EngineName

_SHORTEST_S = 0.01
_NUM_BINS = 28
#: What an observation keeps of its weight when the next one comes.
_KEPT = 0.995
_KEPT_OF_ALL = 0.9995
#: Observations that everybody's gaps count for beside a version's own.
_PRIOR_WEIGHT = 3.0
#: Gaps of each length that everybody's begin with: before any is seen, all orders of magnitude are alike.
_FIRST_OF_EACH = 2
#: Of two versions whose ages are in one bin, the one asked for longer ago is farther by a hair.
_TIE_BREAK_PER_S = 1e-9
#: Weights are scaled down before floats lose them.
_WEIGHT_MAX = 1e100
_LOG_MIDDLES = tuple(math.log(_SHORTEST_S * 2 ** (index + 0.5)) for index in range(_NUM_BINS))
#: What remains of a gap in the bin that the age has come to, and of one in the next, as a part of its middle.
_LOG_PART_LEFT, _LOG_PART_LEFT_OF_NEXT = math.log(1 / 4), math.log(1 / 2)


class _Gaps:
    """Of the gaps in each bin and all longer ones: their weight, and the weighted logarithms of what remains of them.

    A new gap weighs more than the one before, in place of all that came before weighing less: so few numbers change.
    """

    __slots__ = ("_growth", "last", "log_sums", "sums")

    def __init__(self, kept: float) -> None:
        self._growth = 1 / kept
        #: What the last gap weighs.
        self.last = 1.0
        self.sums = array("d", bytes(8 * _NUM_BINS))
        self.log_sums = array("d", bytes(8 * _NUM_BINS))

    def add(self, gap_s: float) -> None:
        self.last *= self._growth
        if self.last > _WEIGHT_MAX:
            self._scale_down()
        seen, weight, sums, log_sums = _bin(gap_s), self.last, self.sums, self.log_sums
        logs = weight * _LOG_MIDDLES[seen]
        for index in range(seen + 1):
            sums[index] += weight
            log_sums[index] += logs
        log_sums[seen] += weight * _LOG_PART_LEFT
        if seen:
            log_sums[seen - 1] += weight * _LOG_PART_LEFT_OF_NEXT

    def _scale_down(self) -> None:
        self.sums = array("d", (each / self.last for each in self.sums))
        self.log_sums = array("d", (each / self.last for each in self.log_sums))
        self.last = 1.0


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

    def log_seconds_of(self, names: Sequence[EngineName], now_s: float) -> list[float]:
        """Return the expected natural logarithm of the seconds until each version is asked for again."""
        ...


class Reuse:
    """Estimates for all versions that were asked for and not forgotten."""

    def __init__(self) -> None:
        self._uses: dict[EngineName, _Use] = {}
        self._all = _Gaps(_KEPT_OF_ALL)
        for log_middle in _LOG_MIDDLES * _FIRST_OF_EACH:
            self._all.add(math.exp(log_middle))

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
        return self.log_seconds_of((name,), now_s)[0]

    def log_seconds_of(self, names: Sequence[EngineName], now_s: float) -> list[float]:
        """Return the same of several versions."""
        sums, log_sums, logs = self._all.sums, self._all.log_sums, list[float]()
        total = sums[0]
        for name in names:
            if (use := self._uses.get(name)) is None:
                logs.append(math.inf)
                continue
            age_s, own = now_s - use.asked_at_s, use.gaps
            index = 0
            if age_s > _SHORTEST_S:  # `_bin`, in line: this is read for every slot
                index = frexp(age_s / _SHORTEST_S)[1] - 1
                index = index if index < _NUM_BINS else _NUM_BINS - 1
            shared = own.last * _PRIOR_WEIGHT / total
            weight = own.sums[index] + shared * sums[index]
            logs.append((own.log_sums[index] + shared * log_sums[index]) / weight + age_s * _TIE_BREAK_PER_S)
        return logs


def _bin(gap_s: float) -> int:
    if gap_s <= _SHORTEST_S:
        return 0
    return min(_NUM_BINS - 1, frexp(gap_s / _SHORTEST_S)[1] - 1)
