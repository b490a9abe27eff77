"""The events of one request on their way from whoever runs an engine to whoever asked it."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent, Failed, Finished

_LAST = (Finished, Failed)


class StreamOwner(Protocol):
    """The engine that fills a stream."""

    def forget(self, request_id: RequestId) -> None:
        """The stream needs nothing more."""
        ...

    async def abort(self, request_id: RequestId) -> None:
        """End the request; returns once it no longer runs."""
        ...


class EventStream:
    """The events of one request; filled by the engine's owner, read by one reader."""

    def __init__(self, engine: StreamOwner, request_id: RequestId) -> None:
        self._engine = engine
        self._request_id = request_id
        self._ready: list[EngineEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._ended = False
        #: On its way to the engine, or confirmed.
        self._aborting: asyncio.Task[None] | None = None
        self._watcher: Callable[[Sequence[EngineEvent]], None] | None = None

    def push(self, *events: EngineEvent) -> None:
        """Add what came at once; the connection calls this, once a token, so it does little."""
        self._ready += events
        if isinstance(events[-1], _LAST):
            self._ended = True
            self._engine.forget(self._request_id)
        if self._watcher is not None:
            self._watcher(events)
            if self._ended:  # whoever watches holds the stream: neither is to wait for the garbage collector
                self._watcher = None
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def watch(self, watcher: Callable[[Sequence[EngineEvent]], None]) -> None:
        """Tell a watcher the events as they come, and at once those that came and were not read."""
        if self._ready:
            watcher(self._ready)
        if not self._ended:
            self._watcher = watcher

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; an empty list after the last one."""
        if not self._ready:
            if self._ended:
                return []
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        ready, self._ready = self._ready, []
        return ready

    async def abort(self) -> None:
        """End the request; returns once the engine confirmed it, or is gone, whoever asked for it first."""
        if self._aborting is None:
            if self._ended:
                return
            self._ended = True
            self._engine.forget(self._request_id)
            self._aborting = asyncio.create_task(self._abort())
        await asyncio.shield(self._aborting)

    async def _abort(self) -> None:
        with contextlib.suppress(EngineUnavailableError):  # a dead engine runs nothing
            await self._engine.abort(self._request_id)
