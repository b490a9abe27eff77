"""The requests that wait at one engine, each until the dispatcher says what becomes of it."""

import asyncio
from collections.abc import Container

from hotset.core.errors import EngineUnavailableError, HotsetError
from hotset.core.ids import RequestId


class Turns(Container[RequestId]):
    """Whose turn has not come."""

    def __init__(self) -> None:
        self._waiting: dict[RequestId, asyncio.Future[float]] = {}

    def __contains__(self, request: object) -> bool:
        """Whether this request waits."""
        return request in self._waiting

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    def begin(self, request: RequestId) -> asyncio.Future[float]:
        """Let a request wait; what comes of it is the future's. `end` follows, whatever that is.

        Returns:
            Once its turn has come, since when its version is in its slot, monotonic seconds.
        """
        self._waiting[request] = asyncio.get_running_loop().create_future()
        return self._waiting[request]

    def end(self, request: RequestId) -> None:
        """The request waits no more."""
        self._waiting.pop(request, None)

    def settle(self, request: RequestId, outcome: float | HotsetError) -> None:
        """Say that its turn has come, or that it never will; of a request that does not wait it is ignored."""
        waiting = self._waiting.get(request)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, HotsetError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    def engine_gone(self) -> None:
        """Refuse all: nobody waits for an engine that is gone."""
        for request in self._waiting:
            self.settle(request, EngineUnavailableError())
