"""A small HTTP/1.1 client for one engine on a Unix socket: one exchange a connection at a time, connections kept.

Pieces of an answer go to their receiver as they arrive, on no task of their own: it is called once a token. A caller
that is cancelled closes its connection, which is how an engine learns that nobody wants the answer any more.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httptools
import msgspec

from hotset.core.errors import EngineFailedError, EngineUnavailableError

#: Shorter than the 5 s for which uvicorn keeps an idle connection.
_IDLE_S = 2.0
_IDLE_MAX = 256
_ANSWER_BYTES_MAX = 16 << 20

#: Status and the next piece of the body.
Receive = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer."""

    status: int
    body: bytes


class HttpClient:
    """Connections to one engine."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        #: The one used last at the end.
        self._idle: list[_Connection] = []

    async def ask(self, method: str, path: str, body: msgspec.Struct | dict[str, object] | None = None) -> Answer:
        """Return the whole answer to a request.

        Raises:
            EngineUnavailableError: nobody answers there, or the connection broke.
            EngineFailedError: the answer is not HTTP, or too long.
        """
        collected = bytearray()

        def receive(_: int, piece: bytes) -> None:
            collected.extend(piece)
            if len(collected) > _ANSWER_BYTES_MAX:
                raise EngineFailedError("the engine's answer is too long")

        status = await self.exchange(method, path, body, receive)
        return Answer(status, bytes(collected))

    async def exchange(
        self, method: str, path: str, body: msgspec.Struct | dict[str, object] | None, receive: Receive
    ) -> int:
        """Send a request and hand on each piece of its answer's body; return the status once the answer is whole.

        Args:
            method: ``GET`` or ``POST``.
            path: From the first slash.
            body: To be sent as JSON; None sends nothing.
            receive: Told each piece; what it raises ends the exchange.

        Raises:
            EngineUnavailableError: nobody answers there, or the connection broke.
            EngineFailedError: the answer is not HTTP.
        """
        connection = self._take_idle() or await self._connect()
        try:
            status = await connection.exchange(_encode(method, path, body), receive)
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable and len(self._idle) < _IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return status

    def close(self) -> None:
        """Close the connections that are idle."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.idle_s() < _IDLE_S:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(_Connection, str(self._socket))
        except OSError as error:
            raise EngineUnavailableError(f"the engine is gone: {error.strerror or error}") from error
        return connection


def _encode(method: str, path: str, body: msgspec.Struct | dict[str, object] | None) -> bytes:
    content = b"" if body is None else msgspec.json.encode(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


class _Connection(asyncio.Protocol):
    """One connection; the parser calls its ``on_`` methods."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._receive: Receive = _refuse
        self._answer: asyncio.Future[int] | None = None
        self._idle_since_s = 0.0
        self.is_reusable = True

    async def exchange(self, request: bytes, receive: Receive) -> int:
        """Send a request's bytes; return its answer's status once it is whole."""
        assert self._transport is not None
        self._answer = self._loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._receive = receive
        self._transport.write(request)
        return await self._answer

    def idle_s(self) -> float:
        """Return for how long it has been of no use."""
        return self._loop.time() - self._idle_since_s

    def close(self) -> None:
        """Close it, whatever is under way."""
        self.is_reusable = False
        self._receive = _refuse
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        if self._receive is _refuse:
            self.close()  # nobody asked for it
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raised = error.__context__  # by the receiver, if anything
            self._fail(raised if isinstance(raised, Exception) else EngineFailedError("that is no HTTP answer"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange that is under way."""
        self._fail(EngineUnavailableError("the engine is gone: its connection broke"))

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body on."""
        self._receive(self._parser.get_status_code(), body)

    def on_message_complete(self) -> None:
        """End the exchange."""
        self.is_reusable = self._parser.should_keep_alive()
        self._receive = _refuse
        self._idle_since_s = self._loop.time()
        status = self._parser.get_status_code()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(status)

    def _fail(self, error: Exception) -> None:
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _refuse(status: int, piece: bytes) -> None:
    raise EngineFailedError("the engine sent more than was asked for")
