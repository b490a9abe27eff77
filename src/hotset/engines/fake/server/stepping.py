"""Steps the fake engine's loop on an event loop: its steps and loads take their time one after the other.

A load stops every request, for the whole of it. What goes wrong inside a step ends the engine, as in vLLM, where
the step's process is the engine and its exception is fatal.
"""

import asyncio
from collections.abc import Callable

from hotset.core.clock import Clock
from hotset.core.errors import EngineFailedError, HotsetError
from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent, Failed, Generate, StepFacts
from hotset.engines.event_stream import EventStream
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.loop import EngineLoop
from hotset.engines.step_engine import NO_STEP


class Stepper:
    """One engine's loop."""

    def __init__(self, loop: EngineLoop, *, speed: float, clock: Clock) -> None:
        self._loop = loop
        self._speed = speed
        self._clock = clock
        self._streams: dict[RequestId, EventStream] = {}
        self._has_work = asyncio.Event()
        #: Held through every step and every load: an engine does one thing at a time.
        self.turn = asyncio.Lock()
        #: Never set while it is to hang.
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        #: Called in the middle of each step.
        self.in_step: Callable[[], None] = lambda: None
        #: Told each step.
        self.watchers: list[Callable[[StepFacts], None]] = []
        self.died = asyncio.Event()
        self.cause = ""

    async def run(self) -> None:
        """Step until the engine dies or this is cancelled."""
        while not self.died.is_set():
            if not self._loop.has_work():
                self._has_work.clear()
                await self._has_work.wait()
            await self._step()

    def generate(self, request: Generate, adapter: AdapterKey | None) -> EventStream:
        """Start a request."""
        stream = EventStream(self, request.request_id)
        if self.died.is_set():
            stream.push(_failed(request.request_id))
            return stream
        self._streams[request.request_id] = stream
        for event in self._loop.add(request, adapter):
            stream.push(event)
        self._has_work.set()
        return stream

    async def abort(self, request_id: RequestId) -> None:
        """End a request, at once."""
        self._loop.abort(request_id)

    def forget(self, request_id: RequestId) -> None:
        """Drop a stream that nobody reads any more."""
        self._streams.pop(request_id, None)

    def cut(self, request_id: RequestId, event: EngineEvent) -> bool:
        """End a request with a last event for its reader; return whether there was one."""
        stream = self._streams.get(request_id)
        if stream is None:
            return False
        self._loop.abort(request_id)
        stream.push(event)
        return True

    async def take(self, seconds: float) -> None:
        """Let so many seconds of the profile pass, or all of time where it is to hang; the caller has the turn."""
        await self.goes_on.wait()
        await asyncio.sleep(seconds / self._speed)

    def die(self, cause: str) -> None:
        """End: nothing steps any more, and whoever waits is told."""
        self.cause = cause
        self.died.set()
        self._has_work.set()
        for request_id, stream in list(self._streams.items()):
            stream.push(_failed(request_id))

    async def _step(self) -> None:
        async with self.turn:
            began_s = self._clock.monotonic_s()
            try:
                taken = self._loop.step()
            except (OSError, HotsetError) as error:
                self.die(f"{type(error).__name__}: {error}")
                return
            await self.take(taken.seconds)
            self.in_step()
            self._tell_watchers(self._clock.monotonic_s() - began_s)
        for event in taken.events:
            stream = self._streams.get(event.request_id)
            if stream is not None:  # one that was aborted meanwhile has none
                stream.push(event)
        await asyncio.sleep(0)

    def _tell_watchers(self, seconds: float) -> None:
        if self._loop.shape != NO_STEP:
            step = StepFacts(seconds, *self._loop.shape)
            for watcher in self.watchers:
                watcher(step)


def _failed(request_id: RequestId) -> Failed:
    return Failed(request_id, EngineFailedError.code, "the engine died")
