"""How long one request may still wait for its first token, at each step of its way, and its end where that is too long.

The agent refuses what it sees can't meet the budget; what the way to it took, and what the engine then does, is seen
here.
"""

import math
from functools import partial

from hotset.core.errors import FirstTokenBudgetExceededError
from hotset.core.ports import OnWaiting, Waiting
from hotset.gateway.accounting import Account
from hotset.gateway.budget import refusal_of
from hotset.gateway.plane import Plane
from hotset.gateway.watch import Watch


class Patience:
    """The first-token budget of one request as it runs out, from the moment its body is whole."""

    __slots__ = ("_account", "_clock", "_settings", "_watch")

    def __init__(self, plane: Plane, account: Account, watch: Watch) -> None:
        self._clock = plane.clock
        self._settings = plane.settings
        self._account = account
        self._watch = watch

    def left_ms(self) -> int | None:
        """Return the whole milliseconds that are left of the budget, at least 1; None where there is none."""
        account = self._account
        assert account.body_at_s is not None
        return account.budget.left_ms(account.body_at_s, self._clock.monotonic_s())

    def listener(self, budget_ms: int | None) -> OnWaiting:
        """Return what hears that the request waits, and interrupts it where it is expected to wait for too long.

        Args:
            budget_ms: How long it may, from now on, in milliseconds; None sets no bound.
        """
        until_s = math.inf if budget_ms is None else self._clock.monotonic_s() + budget_ms / 1000
        return partial(self._hear_waiting, until_s)

    def await_first_token(self) -> None:
        """Interrupt the request unless its first token comes within the budget, where it has one."""
        left_ms = self.left_ms()
        if left_ms is not None:
            error = FirstTokenBudgetExceededError(retry_after_ms=self._settings.retry_after_ms)
            self._watch.await_first_token(left_ms / 1000, error)

    def _hear_waiting(self, until_s: float, waiting: Waiting) -> None:
        """Take the agent's first word on a request that waits, and decide at once what it means for the budget."""
        account, now_s = self._account, self._clock.monotonic_s()
        assert account.body_at_s is not None
        account.lane = waiting.lane
        if waiting.expected_s is not None:
            account.expected_s = now_s - account.body_at_s + waiting.expected_s
        if (refusal := refusal_of(waiting, until_s - now_s)) is not None:
            self._watch.interrupt(refusal)
