"""How long loads, prompts and whole requests take on one worker, learnt from what they took. Pure.

From these the time to a request's first token is predicted: what is loaded before it, its own load, its turn at the
engine, its prompt. A prediction has two sides: what is to be expected, after which a client is told to come back, and
what is nearly always enough, which is what a budget is held against.
"""

import math
from dataclasses import dataclass
from typing import Literal

SourceTier = Literal["warm", "cold"]

#: What an observation keeps of its weight when the next one comes.
_KEPT = 0.9
#: Deviations above the mean that are nearly always enough.
_SAFE_DEVIATIONS = 3.0
#: Deviation of what was seen once, as a part of it.
_FIRST_DEVIATION = 0.25


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds from now."""

    expected_s: float = 0.0
    #: Nearly always enough; at least what is expected.
    safe_s: float = 0.0

    def __add__(self, other: "Prediction") -> "Prediction":
        return Prediction(self.expected_s + other.expected_s, self.safe_s + other.safe_s)

    def times(self, factor: float) -> "Prediction":
        """Return this so many times over."""
        return Prediction(self.expected_s * factor, self.safe_s * factor)

    def at_least(self, seconds: float) -> "Prediction":
        """Return what it is where nothing happens before some seconds have passed."""
        return Prediction(max(self.expected_s, seconds), max(self.safe_s, seconds))

    def at_most(self, seconds: float) -> "Prediction":
        """Return what it is where some seconds are the end of it."""
        return Prediction(min(self.expected_s, seconds), min(self.safe_s, seconds))

    def less(self, seconds: float) -> "Prediction":
        """Return what is left after some seconds."""
        return Prediction(max(0.0, self.expected_s - seconds), max(0.0, self.safe_s - seconds))


NOTHING = Prediction()


class Learnt:
    """A mean and a deviation that follow what is seen."""

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._variance = 0.0

    @property
    def is_known(self) -> bool:
        """Whether anything was seen."""
        return self._mean_s is not None

    def add(self, seconds: float) -> None:
        """Take one observation in."""
        if self._mean_s is None:
            self._mean_s, self._variance = seconds, (_FIRST_DEVIATION * seconds) ** 2
            return
        error = seconds - self._mean_s
        self._mean_s += (1 - _KEPT) * error
        self._variance = _KEPT * (self._variance + (1 - _KEPT) * error * error)

    def predict(self) -> Prediction:
        """Return the next one; nothing where nothing was seen."""
        if self._mean_s is None:
            return NOTHING
        return Prediction(self._mean_s, self._mean_s + _SAFE_DEVIATIONS * math.sqrt(self._variance))


class FirstTokenTimes:
    """What one worker has shown so far."""

    def __init__(self) -> None:
        #: By tier and size class.
        self._loads: dict[tuple[SourceTier, int], Learnt] = {}
        self.prompt = Learnt()
        self.request = Learnt()
        #: From one load's end to the next one's while versions wait for slots.
        self.turn_of_slots = Learnt()

    def loaded(self, tier: SourceTier, num_bytes: int, seconds: float) -> None:
        """Take in what one load took, the fetch in it."""
        self._loads.setdefault((tier, _size_class(num_bytes)), Learnt()).add(seconds)

    def load(self, tier: SourceTier, num_bytes: int) -> Prediction:
        """Predict a load; of the nearest size that was seen, of either tier where this one was not."""
        size = _size_class(num_bytes)
        nearest = min(self._loads, key=lambda seen: (seen[0] != tier, abs(seen[1] - size), seen), default=None)
        return NOTHING if nearest is None else self._loads[nearest].predict()

    def typical_load_s(self, tier: SourceTier) -> float | None:
        """Return what a load from a tier took on average over the sizes seen; None where none was seen."""
        seen = [learnt.predict().expected_s for (source, _), learnt in self._loads.items() if source == tier]
        return sum(seen) / len(seen) if seen else None

    def turn(self, *, num_ahead: int, places: int) -> Prediction:
        """Predict the wait for a place in the engine, every place being taken.

        Args:
            num_ahead: Requests that go first.
            places: Requests that the engine takes at a time, at least 1.
        """
        return self.request.predict().times((num_ahead + 1) / places)


def _size_class(num_bytes: int) -> int:
    return max(num_bytes, 1).bit_length()
