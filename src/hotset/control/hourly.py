"""How often an hour something is done on one other process's word: whoever speaks much costs a bounded amount."""

from collections import deque

from hotset.core.clock import Clock

_HOUR_S = 3600.0


class Hourly:
    """Counts by name, over the hour before now."""

    def __init__(self, clock: Clock, num_max: int) -> None:
        """Begin with nothing done.

        Args:
            clock: Where time comes from.
            num_max: How often it may be done an hour, for each name.
        """
        self._clock = clock
        self._num_max = num_max
        self._times: dict[str, deque[float]] = {}

    def is_one_more(self, name: str) -> bool:
        """Whether it may be done once more; if so, it is counted."""
        now_s = self._clock.monotonic_s()
        times = self._times.setdefault(name, deque())
        while times and now_s - times[0] > _HOUR_S:
            times.popleft()
        if len(times) >= self._num_max:
            return False
        times.append(now_s)
        return True
