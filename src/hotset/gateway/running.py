"""Every generation request between its parsing and its end, so that a withdrawal reaches it (I11).

A new snapshot stops those that wait and may no longer start. It cuts nothing that runs; `cut` does.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from hotset.core.errors import HotsetError, RevokedError
from hotset.core.ids import RequestId
from hotset.core.ports import Withdrawal
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.authenticate import Caller
from hotset.routing.resolve import Resolved, stop_reason


class Interruptible(Protocol):
    """What can end a request's task."""

    def interrupt(self, reason: HotsetError) -> None:
        """End it for this reason, unless it was interrupted or has ended."""
        ...


class RunningRequest(msgspec.Struct, eq=False):
    """What a withdrawal must know of one request."""

    request_id: RequestId
    caller: Caller
    bound: Resolved
    watch: Interruptible
    #: Whether no piece of the answer has come yet.
    is_waiting: bool = True
    #: Whether it waits for a slot or for a place in an engine.
    is_queued: bool = False


class Running:
    """The requests that have a route and have not ended."""

    def __init__(self) -> None:
        self._requests: dict[RequestId, RunningRequest] = {}

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def num_queued(self) -> int:
        """How many wait for a slot or for a place in an engine."""
        return sum(request.is_queued for request in self._requests.values())

    def add(self, request: RunningRequest) -> None:
        """Take a request in; `remove` must follow."""
        self._requests[request.request_id] = request

    def remove(self, request_id: RequestId) -> None:
        """Let a request go. Harmless for an unknown one."""
        self._requests.pop(request_id, None)

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Stop the waiting requests that may no longer start."""
        for request in list(self._requests.values()):
            if request.is_waiting:
                error = stop_reason(snapshot, request.caller.key_hash, request.caller.key, request.bound)
                if error is not None:
                    request.watch.interrupt(error)

    def cut(self, withdrawal: Withdrawal) -> int:
        """End the requests that are covered: waiting ones with an error, streams with an error event.

        Returns:
            How many there were.
        """
        return self._interrupt(
            lambda request: withdrawal.covers(request.caller.key.tenant, request.caller.key.key, request.bound.route),
            RevokedError,
        )

    def stop_all(self, error: Callable[[], HotsetError]) -> int:
        """End every request with an error, at shutdown; return how many there were."""
        return self._interrupt(lambda _: True, error)

    def _interrupt(self, matches: Callable[[RunningRequest], bool], error: Callable[[], HotsetError]) -> int:
        matching = [request for request in self._requests.values() if matches(request)]
        for request in matching:
            request.watch.interrupt(error())
        return len(matching)
