"""Virtual time and the heap of what is to happen in it.

Rule: events at the same moment happen in the order in which they were asked for, so one seed is one run.
"""

import heapq
import random
from collections.abc import Callable

from hotset.sim.event_log import EventLog

Action = Callable[[], None]


class Timer:
    """One thing that is to happen, unless it is cancelled."""

    __slots__ = ("action", "what")

    def __init__(self, what: str, action: Action) -> None:
        self.what = what
        self.action: Action | None = action

    def cancel(self) -> None:
        """Let it not happen; harmless once it has."""
        self.action = None


class World:
    """Time, randomness and the log of one simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.log = EventLog()
        #: Seconds since the start; the true time, which no node of the world can read.
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Timer]] = []
        self._num_asked = 0

    def randomness(self, purpose: str) -> random.Random:
        """Return a generator of its own for each purpose: drawing more for one changes nothing for another."""
        return random.Random(f"{self.seed} {purpose}")  # noqa: S311 - a simulation, not secrets

    def after(self, delay_s: float, what: str, action: Action) -> Timer:
        """Let an action happen once.

        Args:
            delay_s: True seconds from now, at least 0.
            what: Words for the log.
            action: Called with the time at that moment.
        """
        assert delay_s >= 0, f"{what} in the past: {delay_s}"
        timer = Timer(what, action)
        self._num_asked += 1
        heapq.heappush(self._heap, (self.now_s + delay_s, self._num_asked, timer))
        return timer

    def step(self) -> bool:
        """Let the next event happen; False where none is left."""
        while self._heap:
            at_s, _, timer = heapq.heappop(self._heap)
            if timer.action is None:
                continue
            self.now_s = at_s
            action, timer.action = timer.action, None
            self.log.event(at_s, timer.what)
            action()
            return True
        return False
