"""A simulated database of jobs: transactions that take a while, are late now and then, or whose end nobody learns."""

from collections.abc import Callable, Generator
from functools import partial

from hotset.core.errors import JobsUnavailableError
from hotset.planner.job_table import JobTable
from hotset.sim.clocks import Timers
from hotset.sim.network import Address
from hotset.sim.world import World

Act = Callable[[JobTable], object]
#: What one task does, step by step: a transaction, which brings back what it returns, or a pause in seconds.
Steps = Generator[Act | float, object, None]
_TAKES_S = 0.002
_LATE_SHARE = 0.03
_LATE_S = 1.5
#: After how long somebody that is cut off is told so.
_FAILS_AFTER_S = 0.3


class VirtualDatabase:
    """One for all gateways; each transaction happens whole, at one moment."""

    def __init__(self, world: World, table: JobTable) -> None:
        self._world, self.table = world, table
        self._rng = world.randomness("database")
        #: Who can't reach it.
        self.cut_off: set[Address] = set()

    def run(self, who: Address, timers: Timers, steps: Steps) -> None:
        """Take a task's steps one after the other; a crash of who takes them ends them where they are.

        Args:
            who: Which node.
            timers: The node's own.
            steps: What it does; a `JobsUnavailableError` that it lets pass ends it.
        """
        self._resume(who, timers, steps, partial(next, steps))

    def _resume(self, who: Address, timers: Timers, steps: Steps, go_on: Callable[[], Act | float]) -> None:
        try:
            step = go_on()
        except (StopIteration, JobsUnavailableError):
            return
        if isinstance(step, int | float):
            later = partial(self._resume, who, timers, steps, partial(next, steps))
            timers.after(float(step), f"{who} goes on with jobs", later)
            return
        transact = partial(self._transact, who, timers, steps, step)
        self._world.after(self._seconds(), f"{who} transacts", transact)

    def _transact(self, who: Address, timers: Timers, steps: Steps, act: Act) -> None:
        if who not in self.cut_off:
            found = act(self.table)
            timers.after(self._seconds(), f"{who} has transacted", partial(self._answer, who, timers, steps, found))
        else:
            timers.after(_FAILS_AFTER_S, f"{who} reaches no database", partial(self._fail, who, timers, steps))

    def _answer(self, who: Address, timers: Timers, steps: Steps, found: object) -> None:
        """Bring the answer, unless the way broke meanwhile: then nobody knows that the transaction was made."""
        if who in self.cut_off:
            self._fail(who, timers, steps)
            return
        self._resume(who, timers, steps, partial(steps.send, found))

    def _fail(self, who: Address, timers: Timers, steps: Steps) -> None:
        self._resume(who, timers, steps, partial(steps.throw, JobsUnavailableError()))

    def _seconds(self) -> float:
        longest_s = _LATE_S if self._rng.random() < _LATE_SHARE else _TAKES_S
        return longest_s * self._rng.random()
