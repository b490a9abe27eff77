"""The engine process: runs one `StepEngine` and speaks `engines.wire` with the process that started it.

``python -m hotset.engines.host FD`` where FD is one end of a Unix socket pair. Three kinds of thread: one reads
frames, one steps the engine and alone touches it, and loads are staged on a few more, so that reading a file never
delays a step. When the owner goes away the socket ends, and so does the process.
"""

import logging
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import msgspec

from hotset.core.clock import SystemClock
from hotset.core.errors import EngineFailedError, HotsetError
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad, EngineEvent, Failed, Generate, Score, StepFacts
from hotset.engines.building import build_engine
from hotset.engines.step_engine import NO_STEP, StepEngine
from hotset.engines.wire import (
    Abort,
    Call,
    EngineSpec,
    Events,
    Reply,
    TakeInventory,
    ToEngine,
    Unload,
    WireError,
)
from hotset.links.frames import FrameSplitter, frame

_log = logging.getLogger(__name__)
_READ_BYTES = 1 << 18
#: Steps without events, which read a long prompt; of more than this the rest is not told of.
_STEPS_MAX = 1024


@dataclass(frozen=True, slots=True)
class _Staged:
    """A load whose bytes are read and checked, waiting for its turn between two steps."""

    call_id: int
    staged: object


@dataclass(frozen=True, slots=True)
class _Gone:
    """The owner closed its end."""


_Item = Generate | Call | _Staged | _Gone


class Host:
    """Steps one engine and answers its owner's frames."""

    def __init__(self, engine: StepEngine, connection: socket.socket) -> None:
        self._engine = engine
        self._connection = connection
        self._clock = SystemClock()
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._stagers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="stage")
        #: Steps that the owner was not told of yet: those without events.
        self._steps: list[StepFacts] = []
        #: Stagers answer failures themselves, so two threads may send.
        self._sending = threading.Lock()

    def run(self, splitter: FrameSplitter, leftover: list[bytes]) -> None:
        """Serve until the owner is gone."""
        reader = threading.Thread(target=self._read, args=(splitter, leftover), name="read", daemon=True)
        reader.start()
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Take what arrived, then step once; wait only where there is nothing to step."""
        events: list[EngineEvent] = []
        waiting = not self._engine.has_work()
        while True:
            try:
                item = self._inbox.get(block=waiting)
            except queue.Empty:
                break
            waiting = False
            if isinstance(item, _Gone):
                return False
            self._take(item, events)
        if self._engine.has_work():
            began_s = self._clock.monotonic_s()
            events.extend(self._step())
            self._note_step(self._clock.monotonic_s() - began_s)
        if events:
            self._send(frame(Events(events, self._steps)))
            self._steps.clear()
        return True

    def _note_step(self, seconds: float) -> None:
        shape = self._engine.step_shape
        if shape != NO_STEP and len(self._steps) < _STEPS_MAX:
            self._steps.append(StepFacts(seconds, *shape))

    def _step(self) -> list[EngineEvent]:
        """Advance the engine; a step that fails ends the requests that were in it, not the engine and its adapters."""
        try:
            return self._engine.step()
        except Exception:  # noqa: BLE001 - nobody can tell which request did it; the next ones must be served
            _log.exception("a step failed; its requests are ended")
            running = self._engine.inventory().running
            for request_id in running:
                self._engine.abort(request_id)
            return [Failed(request_id, EngineFailedError.code, "the step failed") for request_id in running]

    def _take(self, item: Generate | Call | _Staged, events: list[EngineEvent]) -> None:
        match item:
            case Generate():
                events.extend(self._add(item))
            case _Staged(call_id, staged):
                self._answer(call_id, lambda: Reply(call_id, report=self._engine.place(staged)))
            case Call(call_id, AdapterLoad() as load):
                self._stagers.submit(self._stage, call_id, load)
            case Call(call_id, Abort(request_id)):
                self._engine.abort(request_id)
                # Events of this request from earlier in the turn must not follow the confirmation.
                events[:] = [event for event in events if event.request_id != request_id]
                self._answer(call_id, lambda: Reply(call_id))
            case Call(call_id, Unload(name)):
                self._answer(call_id, lambda: self._unload(call_id, name))
            case Call(call_id, TakeInventory()):
                self._answer(call_id, lambda: Reply(call_id, inventory=self._engine.inventory()))
            case Call(call_id, Score() as score):
                self._answer(call_id, lambda: Reply(call_id, scores=self._engine.score(score)))

    def _add(self, request: Generate) -> list[EngineEvent]:
        """Queue a request; whatever is wrong with it is its own failure and nobody else's."""
        try:
            return self._engine.add(request)
        except HotsetError as error:
            return [Failed(request.request_id, error.code, error.message, error.param)]
        except Exception:  # noqa: BLE001 - as of a step: nothing that a tenant sends may end the engine
            _log.exception("a request can't be taken in")
            self._engine.abort(request.request_id)
            return [Failed(request.request_id, EngineFailedError.code, "the request can't be taken in")]

    def _unload(self, call_id: int, name: EngineName) -> Reply:
        self._engine.unload(name)
        return Reply(call_id)

    def _stage(self, call_id: int, load: AdapterLoad) -> None:
        def stage() -> Reply | None:
            self._inbox.put(_Staged(call_id, self._engine.stage(load)))
            return None

        self._answer(call_id, stage)

    def _answer(self, call_id: int, act: Callable[[], Reply | None]) -> None:
        """Run one call and send its reply, or the error it raised."""
        try:
            reply = act()
        except HotsetError as error:
            reply = Reply(call_id, WireError(error.code, error.message))
        except (OSError, ValueError, RuntimeError, KeyError, MemoryError) as error:
            _log.exception("call failed")
            reply = Reply(call_id, WireError(EngineFailedError.code, f"{type(error).__name__}: {error}"))
        if reply is not None:
            self._send(frame(reply))

    def _send(self, frames: bytes) -> None:
        with self._sending:
            self._connection.sendall(frames)

    def _read(self, splitter: FrameSplitter, leftover: list[bytes]) -> None:
        """Pass frames on until the owner is gone; a frame that does not decode ends the process too."""
        decoder = msgspec.msgpack.Decoder(ToEngine)
        try:
            for body in leftover:
                self._inbox.put(cast("_Item", decoder.decode(body)))
            while chunk := self._connection.recv(_READ_BYTES):
                for body in splitter.feed(chunk):
                    self._inbox.put(cast("_Item", decoder.decode(body)))
        except (OSError, ValueError):
            _log.exception("the owner's connection broke")
        finally:
            self._inbox.put(_Gone())


def _read_spec(connection: socket.socket, splitter: FrameSplitter) -> tuple[EngineSpec, list[bytes]] | None:
    """Return the first frame as the spec, with whatever arrived behind it; None where the owner left."""
    while True:
        chunk = connection.recv(_READ_BYTES)
        if not chunk:
            return None
        bodies = list(splitter.feed(chunk))
        if bodies:
            return msgspec.msgpack.decode(bodies[0], type=EngineSpec), bodies[1:]


def main() -> int:
    """Run the engine process; returns its exit status."""
    # The owner decides when to end; an interrupt typed at a terminal reaches its whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.setblocking(True)
        splitter = FrameSplitter()
        first = _read_spec(connection, splitter)
        if first is None:
            return 0
        spec, leftover = first
        try:
            engine = build_engine(spec)
        except HotsetError as error:
            connection.sendall(frame(Reply(0, WireError(error.code, error.message))))
            return 1
        connection.sendall(frame(Reply(0, facts=engine.facts)))
        try:
            Host(engine, connection).run(splitter, leftover)
        except BrokenPipeError:
            return 0  # the owner left while we were speaking
    return 0


if __name__ == "__main__":
    sys.exit(main())
