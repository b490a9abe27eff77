"""Clocks of a simulated node, which run too fast or too slow and show the wrong hour."""

from hotset.sim.world import Action, Timer, World

#: 2026-01-01 in seconds since the Unix epoch: when a simulated world begins.
_BEGAN_WALL_S = 1_767_225_600.0


class SkewedClock:
    """Implements `core.clock.Clock` for one node. Its monotonic clock never goes back; its wall clock may jump."""

    def __init__(self, world: World, *, rate: float = 1.0, wall_offset_s: float = 0.0) -> None:
        """Start a clock.

        Args:
            world: Whose time it should show.
            rate: Seconds that it counts in a true one, above 0.
            wall_offset_s: How far its wall clock is ahead.
        """
        assert rate > 0, rate
        self._world = world
        self._rate = rate
        self._counted_s = 0.0
        self._since_s = world.now_s
        self.wall_offset_s = wall_offset_s

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start, as this node counts them."""
        return self._counted_s + (self._world.now_s - self._since_s) * self._rate

    def wall_s(self) -> float:
        """Seconds since the Unix epoch, as this node believes."""
        return _BEGAN_WALL_S + self._world.now_s + self.wall_offset_s

    def set_rate(self, rate: float) -> None:
        """Count at another rate from now on."""
        assert rate > 0, rate
        self._counted_s, self._since_s = self.monotonic_s(), self._world.now_s
        self._rate = rate

    def after(self, seconds: float, what: str, action: Action) -> Timer:
        """Let an action happen once this node has counted so many seconds."""
        return self._world.after(max(0.0, seconds) / self._rate, what, action)


class Timers:
    """What one node has still to do, by its own clock; a crash takes all of it away."""

    def __init__(self, clock: SkewedClock) -> None:
        self._clock = clock
        self._set: list[Timer] = []

    def after(self, seconds: float, what: str, action: Action) -> None:
        """Let an action happen once, unless the node crashes before; see `SkewedClock.after`."""
        self._set = [timer for timer in self._set if timer.action is not None]
        self._set.append(self._clock.after(seconds, what, action))

    def cancel_all(self) -> None:
        """Let nothing of it happen."""
        for timer in self._set:
            timer.cancel()
        self._set.clear()
