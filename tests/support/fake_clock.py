"""A clock that only moves when a test moves it."""


class FakeClock:
    """Implements `core.clock.Clock`."""

    def __init__(self, *, monotonic_s: float = 1000.0, wall_s: float = 1_700_000_000.0) -> None:
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return self._monotonic_s

    def wall_s(self) -> float:
        """Seconds since the Unix epoch."""
        return self._wall_s

    def advance(self, seconds: float) -> None:
        """Let time pass on both."""
        assert seconds >= 0
        self._monotonic_s += seconds
        self._wall_s += seconds
