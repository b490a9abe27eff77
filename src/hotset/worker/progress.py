"""Whether an engine gets on: when it last brought something of any request that runs in it."""

import asyncio
from collections.abc import Callable

from hotset.core.clock import Clock


class Progress:
    """Of one engine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()

    def made(self) -> None:
        """Something of a request came, or the first of those that run was begun."""
        self._at_s = self._clock.monotonic_s()

    def silence_s(self) -> float:
        """Return for how long nothing came, in seconds."""
        return self._clock.monotonic_s() - self._at_s

    async def stalled(self, limit_s: float, num_running: Callable[[], int]) -> None:
        """Return once the engine runs requests and brings nothing of any of them for so long."""
        while not num_running() or self.silence_s() < limit_s:  # noqa: ASYNC110
            await asyncio.sleep(min(1.0, limit_s / 4))
