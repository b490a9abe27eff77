"""One time that something has to be looked at again, on the event loop."""

import asyncio
from collections.abc import Callable

from hotset.core.clock import Clock

#: So that a time that is nearly come does not keep the loop busy.
_DELAY_MIN_S = 0.001


class Alarm:
    """Rings once at the time it was set to last."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_s: float | None) -> None:
        """Ring at that time, in monotonic seconds, or never; what was set before counts no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_s is not None:
            delay_s = max(_DELAY_MIN_S, at_s - self._clock.monotonic_s())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)
