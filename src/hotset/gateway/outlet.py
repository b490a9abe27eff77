"""The way out of one request: knows whether the answer has begun, and keeps a silent stream alive.

A stream's headers go out with its first piece. Past a time of silence they go out alone, followed by comments,
so that proxies and clients see a living connection; from then on an error can only be an event.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hotset.gateway.sse import COMMENT
from hotset.gateway.watch import ClientGoneError

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]


class Outlet:
    """Sends one answer."""

    __slots__ = ("_headers", "_is_sending", "_is_silent", "_keepalive", "_lock", "_send", "_timer", "has_begun")

    def __init__(self, send: Send) -> None:
        self._send = send
        #: Whether the status line is out.
        self.has_begun = False
        self._headers: Callable[[], HeaderList] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._keepalive: asyncio.Task[None] | None = None
        self._lock: asyncio.Lock | None = None
        #: Whether nothing was sent since the keep-alive last looked.
        self._is_silent = True
        #: Whether a piece of the stream is waiting for a slow client.
        self._is_sending = False

    async def answer(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send a whole answer.

        Raises:
            ClientGoneError: the connection is closed.
        """
        headers.append((b"content-length", b"%d" % len(body)))
        await self._begin(status, headers)
        await self._piece(body, more=False)

    def stream(self, headers: Callable[[], HeaderList], *, keepalive_after_s: float, every_s: float) -> None:
        """Make the answer a stream; nothing is sent before its first piece or `keepalive_after_s` of silence.

        Args:
            headers: Called once, when the stream begins.
            keepalive_after_s: Silence after which the stream begins without a piece.
            every_s: Silence after which a comment follows, from then on.
        """
        self._headers = headers
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(keepalive_after_s, self._start_keepalive, loop, every_s)

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        """Send a piece of the stream; waits while the client reads more slowly than we write.

        Args:
            piece: Whole events.
            more: False for the last piece.

        Raises:
            ClientGoneError: the connection is closed.
        """
        self._is_silent = False
        if self._lock is not None:
            async with self._lock:
                await self._stream_piece(piece, more=more)
            return
        self._is_sending = True
        if self.has_begun:
            await self._piece(piece, more=more)
        else:
            await self._stream_piece(piece, more=more)
        self._is_sending = False

    def close(self) -> None:
        """End the keep-alive; nothing of it is left afterwards."""
        if self._timer is not None:
            self._timer.cancel()
        if self._keepalive is not None:
            self._keepalive.cancel()

    async def _stream_piece(self, piece: bytes, *, more: bool) -> None:
        if not self.has_begun:
            assert self._headers is not None
            await self._begin(200, self._headers())
        await self._piece(piece, more=more)

    async def _begin(self, status: int, headers: HeaderList) -> None:
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
        except OSError:
            raise ClientGoneError from None
        self.has_begun = True

    async def _piece(self, body: bytes, *, more: bool) -> None:
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            raise ClientGoneError from None

    def _start_keepalive(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        self._lock = asyncio.Lock()
        self._keepalive = loop.create_task(self._keep_alive(every_s))

    async def _keep_alive(self, every_s: float) -> None:
        assert self._lock is not None
        while True:
            if self._is_silent and not self._is_sending:
                async with self._lock:
                    try:
                        await self._stream_piece(COMMENT, more=True)
                    except ClientGoneError:
                        return
            self._is_silent = True
            await asyncio.sleep(every_s)
