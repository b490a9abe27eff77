"""The owner's side of an engine process: implements `engines.port.Engine` over `engines.wire`.

The child inherits one end of a socket pair, so there is no path that anybody else could open.
"""

import asyncio
import logging
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from hotset.core.errors import (
    ContextLengthExceededError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
)
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
from hotset.engines.child_process import ChildProcess
from hotset.engines.event_stream import EventStream
from hotset.engines.wire import (
    Abort,
    Call,
    EngineSpec,
    Events,
    FromEngine,
    Reply,
    TakeInventory,
    Unload,
)
from hotset.links.frames import FrameSplitter, frame

_log = logging.getLogger(__name__)
#: The errors a reply may carry; anything else is an engine that is not in order.
_REPLY_ERRORS: dict[str, type[HotsetError]] = {
    error.code: error for error in (LoadFailedError, ContextLengthExceededError, EngineUnavailableError)
}


class HostedEngine(asyncio.Protocol):
    """One engine process and the connection to it. `start` once; after `on_exit` it is of no more use."""

    def __init__(self, spec: EngineSpec, *, start_timeout_s: float = 600.0) -> None:
        self._spec = spec
        self._start_timeout_s = start_timeout_s
        self._splitter = FrameSplitter()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)
        self._transport: asyncio.Transport | None = None
        self._child = ChildProcess()
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._next_call = 1
        self._streams: dict[RequestId, EventStream] = {}
        self._step_watcher: Callable[[StepFacts], None] = lambda _: None
        #: Frames that go out at the end of this turn of the event loop.
        self._outbox: list[bytes] = []
        self._gone = asyncio.Event()

    # --- the Engine port -------------------------------------------------------------------------------

    async def start(self) -> EngineFacts:
        """Start the process and return once it serves.

        Raises:
            EngineUnavailableError: it did not come up; the message holds its last words.
        """
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[0] = answer
        try:
            await self._spawn()
            async with asyncio.timeout(self._start_timeout_s):
                reply = await answer
        except (TimeoutError, EngineUnavailableError) as error:
            await self.stop()
            raise EngineUnavailableError(self._child.last_words.after("the engine did not start")) from error
        except OSError as error:  # no more processes, files or memory
            answer.cancel()
            await self.stop()
            raise EngineUnavailableError(f"the engine's process can't be started: {error}") from error
        except asyncio.CancelledError:
            answer.cancel()
            await self.stop()
            raise
        if reply.error is not None or reply.facts is None:
            await self.stop()
            raise EngineUnavailableError(reply.error.message if reply.error else "the engine gave no facts")
        return reply.facts

    async def _spawn(self) -> None:
        """Start the child on its end of a socket pair, and send it the spec over ours."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            ours.setblocking(False)
            with theirs:
                fd = theirs.fileno()
                command = (sys.executable, "-m", "hotset.engines.host", str(fd))
                await self._child.start(*command, stdin=asyncio.subprocess.DEVNULL, pass_fds=(fd,))
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        finally:
            if self._transport is None:
                ours.close()  # a child that has begun ends by itself then
        transport.write(frame(self._spec))

    async def load(self, load: AdapterLoad) -> LoadReport:
        """Put a version into a free slot."""
        reply = await self._ask(load)
        assert reply.report is not None
        return reply.report

    async def unload(self, name: EngineName) -> None:
        """Free the version's slot."""
        await self._ask(Unload(name))

    async def inventory(self) -> Inventory:
        """Return what is loaded and running."""
        reply = await self._ask(TakeInventory())
        assert reply.inventory is not None
        return reply.inventory

    async def score(self, score: Score) -> list[list[float]]:
        """Return, for each text, the log-probability of each token after its first."""
        reply = await self._ask(score)
        assert reply.scores is not None
        return reply.scores

    def generate(self, request: Generate) -> EventStream:
        """Start a request."""
        stream = EventStream(self, request.request_id)
        if self._transport is None or self._gone.is_set():
            stream.push(Failed(request.request_id, "engine_failed", "the engine is gone"))
            return stream
        self._streams[request.request_id] = stream
        self._write(frame(request))
        return stream

    def watch_steps(self, watcher: Callable[[StepFacts], None]) -> None:
        """Tell a watcher what each step computed."""
        self._step_watcher = watcher

    async def abort(self, request_id: RequestId) -> None:
        """End a request; returns once the engine confirmed it."""
        await self._ask(Abort(request_id))

    async def stop(self) -> None:
        """End the engine's process, gently first."""
        if self._transport is not None:
            self._transport.close()  # the child ends by itself when its socket does
        await self._child.end()
        self._lose(None)

    # --- what the owner may also ask -------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The child's process id, once it started."""
        return self._child.pid

    async def wait_gone(self) -> str:
        """Return once the engine is gone, with its last words."""
        await self._gone.wait()
        await self._child.last_words.heard()
        return self._child.last_words.after("the engine is gone")

    def forget(self, request_id: RequestId) -> None:
        """Drop a stream that nobody reads any more."""
        self._streams.pop(request_id, None)

    # --- the connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand replies to their callers and events to their streams."""
        for body in self._splitter.feed(data):
            match self._decoder.decode(body):
                case Events(events, steps):
                    self._hand_out(events)
                    for step in steps:
                        self._step_watcher(step)
                case Reply() as reply:
                    call = self._calls.pop(reply.call_id, None)
                    if call is not None and not call.done():
                        call.set_result(reply)

    def _hand_out(self, events: Iterable[EngineEvent]) -> None:
        """Give each stream its events, all that came for it at once."""
        by_request: defaultdict[RequestId, list[EngineEvent]] = defaultdict(list)
        for event in events:
            by_request[event.request_id].append(event)
        for request_id, of_request in by_request.items():
            stream = self._streams.get(request_id)
            if stream is not None:  # an aborted request's last events have no reader
                stream.push(*of_request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whatever waits: the engine is gone."""
        self._lose(exc)

    def _write(self, message: bytes) -> None:
        """Send a frame with whatever else this turn of the event loop sends: a system call costs more than a frame."""
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(message)

    def _flush(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def _lose(self, exc: Exception | None) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        if exc is not None:
            _log.error("lost the engine's connection", extra={"reason": str(exc)})
        for call in self._calls.values():
            if not call.done():
                call.set_exception(EngineUnavailableError("the engine is gone"))
        self._calls.clear()
        for request_id, stream in list(self._streams.items()):
            stream.push(Failed(request_id, "engine_failed", "the engine is gone"))
        self._streams.clear()

    async def _ask(self, body: AdapterLoad | Unload | Abort | TakeInventory | Score) -> Reply:
        if self._transport is None or self._gone.is_set():
            raise EngineUnavailableError("the engine is gone")
        call_id = self._next_call
        self._next_call += 1
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = answer
        self._write(frame(Call(call_id, body)))
        try:
            reply = await answer
        finally:
            self._calls.pop(call_id, None)
        if reply.error is not None:
            raise _REPLY_ERRORS.get(reply.error.code, LoadFailedError)(reply.error.message)
        return reply
