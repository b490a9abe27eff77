"""What an engine's base answers to a fixed probe, and whether that is as sound as what it answered when it was fresh.

Tokens are compared exactly, but only as far as the fresh engine was sure of them: where two tokens are nearly as
likely, arithmetic in another order may choose the other one, and from there on every answer is right. Log-probabilities
are compared within a tolerance that is measured on the fresh engine, alone and beside others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotset.core.fleet import FlawCode
from hotset.core.messages import Delta, EngineEvent, Failed

#: Tokens that are asked for.
NUM_TOKENS = 6
#: Nothing below this is called a difference: natural log. In bfloat16 a probe beside 24 sequences was off by up to 0.05
#: from the one beside none, more than the few of the baseline show.
_TOLERANCE_MIN = 0.25
#: How many times the spread that was measured still passes.
_SPREADS = 8.0


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer."""

    text: str
    logprob: float
    #: How much likelier it is than the next best, natural log; infinite where the engine says nothing of others.
    margin: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer to the probe."""

    #: Whole, for engines that give no log-probabilities.
    text: str
    tokens: tuple[Token, ...]


def read(events: Sequence[EngineEvent]) -> Reading | Failed:
    """Return what a request's events, to the last one, amount to."""
    last = events[-1]
    if isinstance(last, Failed):
        return last
    deltas = [event for event in events if isinstance(event, Delta)]
    found = [each for delta in deltas for each in delta.logprobs or ()]
    tokens = tuple(Token(each.token, each.logprob, _margin([top.logprob for top in each.top])) for each in found)
    return Reading("".join(delta.text for delta in deltas), tokens)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a fresh engine answered, and how exactly it did so again."""

    reading: Reading
    #: Of a log-probability, natural log.
    tolerance: float
    #: Tokens from the first on that any sound answer begins with.
    num_sure: int

    def flaw(self, reading: Reading | Failed) -> FlawCode | None:
        """Return what is wrong with an answer; None where it is sound."""
        if isinstance(reading, Failed) or not reading.text:
            return "base_failed"
        if not is_finite(reading):
            return "base_not_finite"
        if not self.reading.tokens:
            return None if reading.text == self.reading.text else "base_differs"
        pairs = list(zip(self.reading.tokens[: self.num_sure], reading.tokens, strict=False))
        if len(reading.tokens) < self.num_sure or any(one.text != other.text for one, other in pairs):
            return "base_differs"
        if any(abs(one.logprob - other.logprob) > self.tolerance for one, other in pairs):
            return "base_drifts"
        return None


def baseline_of(readings: Sequence[Reading | Failed]) -> Baseline | None:
    """Return what several answers of one fresh engine establish; None where one of them is not sound in itself."""
    sound = [each for each in readings if isinstance(each, Reading) and each.text and is_finite(each)]
    if len(sound) < len(readings):
        return None
    first = sound[0]
    columns = list(zip(*(each.tokens for each in sound), strict=False))
    spread = max((_spread([token.logprob for token in column]) for column in columns), default=0.0)
    tolerance = max(_TOLERANCE_MIN, _SPREADS * spread)
    num_sure = 0
    for column in columns:
        # Two tokens may each move by the tolerance, towards each other.
        if len({token.text for token in column}) > 1 or column[0].margin <= 2 * tolerance:
            break
        num_sure += 1
    baseline = Baseline(first, tolerance, num_sure)
    return baseline if all(baseline.flaw(each) is None for each in sound) else None


def is_finite(reading: Reading) -> bool:
    """Whether every log-probability is a number."""
    return all(math.isfinite(token.logprob) for token in reading.tokens)


def _margin(logprobs: list[float]) -> float:
    best = sorted(logprobs, reverse=True)[:2]
    return best[0] - best[1] if len(best) == 2 else math.inf


def _spread(values: list[float]) -> float:
    return max(values) - min(values)
