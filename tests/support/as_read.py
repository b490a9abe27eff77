"""An engine that is as far with each request as its reader, so that a test says how long one runs."""

from collections.abc import Callable, Sequence
from typing import cast

from hotset.core.messages import EngineEvent, Generate
from hotset.engines.event_stream import EventStream
from hotset.engines.hosted import HostedEngine


class StreamAsRead:
    """Tells its watcher of events when they are read, whenever they came."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._watcher: Callable[[Sequence[EngineEvent]], None] | None = None

    def watch(self, watcher: Callable[[Sequence[EngineEvent]], None]) -> None:
        self._watcher = watcher

    async def events(self) -> list[EngineEvent]:
        events = await self._stream.events()
        if self._watcher is not None:
            self._watcher(events)
        return events

    async def abort(self) -> None:
        await self._stream.abort()


class EngineAsRead(HostedEngine):
    """An engine process of which nobody sees that it is faster than its readers."""

    def generate(self, request: Generate) -> EventStream:
        return cast("EventStream", StreamAsRead(super().generate(request)))
