"""The fake engine on its caller's own event loop: no process of its own, and every second of it the loop's.

On a loop in virtual time it is as exact as a simulation, with the real agent around it.
"""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    EngineEvent,
    EngineFacts,
    Failed,
    Generate,
    Inventory,
    LoadReport,
    Score,
    StepFacts,
)
from hotset.engines.event_stream import EventStream
from hotset.engines.fake.engine import FakeEngine, FakeSettings
from hotset.engines.step_engine import NO_STEP


class InlineEngine:
    """Implements `engines.port.Engine` over a `FakeEngine`, which steps on a task here."""

    def __init__(self, settings: FakeSettings, clock: Clock) -> None:
        self._clock = clock
        #: Seconds that the engine took in its last call and that have not passed yet.
        self._owed_s = 0.0
        self._engine = FakeEngine(settings, clock=clock, sleep=self._owe)
        self._streams: dict[RequestId, EventStream] = {}
        self._step_watcher: Callable[[StepFacts], None] = lambda _: None
        #: Events of the step under way; an aborted request's are taken out.
        self._coming: list[EngineEvent] = []
        #: Held through every step and every load: an engine does one thing at a time.
        self._turn = asyncio.Lock()
        self._has_work = asyncio.Event()
        self._gone = asyncio.Event()
        self._step_watcher: Callable[[StepFacts], None] = lambda _: None
        self._stepping: asyncio.Task[None] | None = None

    async def start(self) -> EngineFacts:
        """Start stepping."""
        self._stepping = asyncio.create_task(self._step_on())
        return self._engine.facts

    async def load(self, load: AdapterLoad) -> LoadReport:
        """Put a version into a free slot."""
        self._check_here()
        began_s = self._clock.monotonic_s()
        staged = self._engine.stage(load)
        await self._pass_owed()
        async with self._turn:
            stalled_s = self._clock.monotonic_s()
            report = self._engine.place(staged)
            await self._pass_owed()
            now_s = self._clock.monotonic_s()
        return msgspec.structs.replace(report, seconds=now_s - began_s, stall_seconds=now_s - stalled_s)

    async def unload(self, name: EngineName) -> None:
        """Free the version's slot."""
        self._check_here()
        async with self._turn:
            self._engine.unload(name)

    async def inventory(self) -> Inventory:
        """Return what is loaded and running."""
        self._check_here()
        return self._engine.inventory()

    def generate(self, request: Generate) -> EventStream:
        """Start a request."""
        stream = EventStream(self, request.request_id)
        if self._gone.is_set():
            stream.push(Failed(request.request_id, "engine_failed", "the engine is gone"))
            return stream
        self._streams[request.request_id] = stream
        for event in self._engine.add(request):
            stream.push(event)
        self._has_work.set()
        return stream

    def watch_steps(self, watcher: Callable[[StepFacts], None]) -> None:
        """Tell a watcher what each step computed."""
        self._step_watcher = watcher

    async def abort(self, request_id: RequestId) -> None:
        """End a request, at once."""
        self._check_here()
        self._engine.abort(request_id)
        self._coming = [event for event in self._coming if event.request_id != request_id]

    async def score(self, score: Score) -> list[list[float]]:
        """Return, for each text, the log-probability of each token after its first."""
        self._check_here()
        return self._engine.score(score)

    async def stop(self) -> None:
        """End; running requests end with `Failed`."""
        if self._stepping is not None:
            self._stepping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._stepping
        self._gone.set()
        for request_id, stream in list(self._streams.items()):
            stream.push(Failed(request_id, "engine_failed", "the engine is gone"))

    async def wait_gone(self) -> str:
        """Return once it was stopped."""
        await self._gone.wait()
        return "the engine is gone"

    def forget(self, request_id: RequestId) -> None:
        """Drop a stream that nobody reads any more."""
        self._streams.pop(request_id, None)

    async def _step_on(self) -> None:
        while True:
            if not self._engine.has_work():
                self._has_work.clear()
                await self._has_work.wait()
            async with self._turn:
                began_s = self._clock.monotonic_s()
                self._coming = self._engine.step()
                if self._engine.step_shape != NO_STEP:
                    self._step_watcher(StepFacts(self._owed_s, *self._engine.step_shape))
                await self._pass_owed()
                shape = self._engine.step_shape
                self._step_watcher(StepFacts(self._clock.monotonic_s() - began_s, *shape))
            for event in self._coming:
                if (stream := self._streams.get(event.request_id)) is not None:
                    stream.push(event)
            self._coming = []
            await asyncio.sleep(0)

    def _owe(self, seconds: float) -> None:
        self._owed_s += seconds

    async def _pass_owed(self) -> None:
        owed_s, self._owed_s = self._owed_s, 0.0
        await asyncio.sleep(owed_s)

    def _check_here(self) -> None:
        if self._gone.is_set():
            raise EngineUnavailableError("the engine is gone")
