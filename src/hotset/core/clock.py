"""The one place that asks the machine what time it is.

Durations use `monotonic_s`; `wall_s` is for audit, tokens and display only.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from; simulations and tests pass their own."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def wall_s(self) -> float:
        """Seconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    """The machine's own clocks."""

    # The system's functions themselves, as a request asks some 25 times.
    #: Seconds from an arbitrary start; never goes back.
    monotonic_s = staticmethod(time.monotonic)
    #: Seconds since the Unix epoch, UTC.
    wall_s = staticmethod(time.time)
