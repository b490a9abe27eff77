"""An asyncio loop whose time passes only while nothing is left to do, so that minutes take seconds and load is none.

Whatever the machine is busy with, a run on it comes out the same. Work on threads takes no time at all on it: the loop
stands still until it is done. Nothing that waits on a socket or a process may run here.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class VirtualClock:
    """Implements `core.clock.Clock`; moved by its loop alone."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        """Seconds since the loop was made."""
        return self.now_s

    def wall_s(self) -> float:
        """The same."""
        return self.now_s


class _LeapingSelector(selectors.DefaultSelector):
    """Instead of waiting for nothing, lets the clock leap to the next timer."""

    def __init__(self, clock: VirtualClock, is_waited_for: Callable[[], bool]) -> None:
        super().__init__()
        self._clock = clock
        self._is_waited_for = is_waited_for

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; wait in earnest for threads alone."""
        if timeout is None or (timeout > 0 and self._is_waited_for()):
            return super().select(None)
        self._clock.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; make it with its clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        #: Calls that run on threads.
        self._num_on_threads = 0
        super().__init__(_LeapingSelector(clock, lambda: self._num_on_threads > 0))

    def time(self) -> float:
        """Return the clock's seconds."""
        return self._clock.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a call on a thread, and stand still until it is done."""
        self._num_on_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _: asyncio.Future[Any]) -> None:
        self._num_on_threads -= 1


def run_virtual(clock: VirtualClock, story: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end on a loop of its own with this clock."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(story)
