"""A request's ticket: the lease at residency and the stream at the engine, ended together."""

from collections.abc import Callable

from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent, Failed, Finished
from hotset.core.ports import Lane
from hotset.engines.port import EngineStream


class LeaseTicket:
    """Implements `core.ports.Ticket`. The lease ends with the engine's last event or its confirmed abort."""

    def __init__(
        self,
        stream: EngineStream,
        request: RequestId,
        release: Callable[[RequestId], None],
        *,
        lane: Lane,
        load_seconds: float,
    ) -> None:
        self._stream = stream
        self._request = request
        self._release = release
        self.lane: Lane = lane
        self.load_seconds = load_seconds

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; an empty list after the last one."""
        events = await self._stream.events()
        if events and isinstance(events[-1], Finished | Failed):
            self._release(self._request)
        return events

    async def abort(self) -> None:
        """End the request in the engine and release the lease; harmless after the end."""
        try:
            await self._stream.abort()
        finally:
            # Also where the wait was cancelled: the engine has the abort in its queue, before any unload.
            self._release(self._request)
