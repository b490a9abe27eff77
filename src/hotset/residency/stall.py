"""How much of a worker's time loads may take from what runs there: a bucket of seconds, refilled evenly. Pure.

A load keeps the engine from stepping, so everybody's tokens wait for it. What a load took is known once it is there;
until then each load under way counts as much as the last ones did.
"""

#: Seconds of refill that the bucket holds.
_SAVED_S = 10.0
#: What an observation keeps of its weight when the next one comes.
_KEPT = 0.8
#: Less is nothing: what floats make of a wait that is over.
_WAIT_MIN_S = 1e-6


class StallBudget:
    """What is left for the next load, and when there is enough."""

    def __init__(self, stall_ms_per_s: float) -> None:
        """Start with a full bucket.

        Args:
            stall_ms_per_s: Milliseconds of every second that loads may keep the engine from stepping, above 0.
        """
        self._rate = stall_ms_per_s / 1000
        self._left_s = self._most_s = self._rate * _SAVED_S
        self._counted_at_s = 0.0
        self._expected_s = 0.0

    def spent(self, stall_s: float, now_s: float) -> None:
        """Count the stall of a load that is done."""
        self._left_s = self.left_s(now_s) - stall_s
        self._counted_at_s = now_s
        self._expected_s = stall_s + _KEPT * (self._expected_s - stall_s) if self._expected_s else stall_s

    def left_s(self, now_s: float) -> float:
        """Return what is in the bucket; below 0 where the last load took more than there was."""
        return min(self._most_s, self._left_s + (now_s - self._counted_at_s) * self._rate)

    def lasts(self, num_loads: int, now_s: float) -> bool:
        """Whether so many loads and another one may all begin now."""
        return self.left_s(now_s) >= (num_loads + 1) * self._expected_s

    def seconds_to_next(self, now_s: float, *, num_under_way: int, is_owed: bool) -> float:
        """Return how long the next load has to wait; 0 where it may begin.

        An owed one begins while anything is left, any other only while it leaves as much as another load takes: so
        whoever is owed a slot finds what it needs.

        Args:
            now_s: Monotonic seconds.
            num_under_way: Loads that were decided on and are not done.
            is_owed: Whether it is for a tenant below its reserve.
        """
        kept_s = 0.0 if is_owed else min(self._expected_s, self._most_s / 2)
        missing_s = kept_s - (self.left_s(now_s) - num_under_way * self._expected_s)
        wait_s = missing_s / self._rate
        return wait_s if wait_s > _WAIT_MIN_S else 0.0
