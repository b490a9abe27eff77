"""One end of a connection between two processes: messages out, messages in, and its end told exactly once.

Both ends send an empty frame every few seconds; one that hears nothing for long takes the other for gone, however the
connection died. Nothing waits in here without bound: who sends much waits for `writable`, and a peer that reads nothing
loses its connection.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from hotset.links.frames import FrameSplitter, frame

_log = logging.getLogger(__name__)
_BEAT_S = 2.0
#: Beats without a word after which the other end is taken for gone; long enough for a machine that is overloaded.
_SILENT_BEATS_MAX = 8
_BEAT = b"\x00\x00\x00\x00"
_HIGH_WATER_BYTES = 1 << 20
#: Unsent bytes at which the other end is taken for one that reads nothing.
_UNSENT_BYTES_MAX = 256 << 20

M = TypeVar("M")


class Link(asyncio.Protocol, Generic[M]):
    """One end of a link. Its owner hears of the beginning, of each message and of the end, on the event loop."""

    def __init__(
        self,
        decoder: "msgspec.msgpack.Decoder[M]",
        *,
        on_open: Callable[["Link[M]"], None],
        on_message: Callable[[M], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Prepare an end; the event loop fills it once it is connected.

        Args:
            decoder: Of the messages that the other end sends.
            on_open: Hears that it is connected.
            on_message: Hears each message; what it raises ends the link.
            on_end: Hears, once, why the link ended; also where it never opened to the owner's liking.
        """
        self._decoder = decoder
        self._on_open = on_open
        self._on_message = on_message
        self._on_end = on_end
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes] = []
        self._reason = "the other end closed it"
        self._ended = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._silent_beats = 0
        self._heart: asyncio.TimerHandle | None = None

    # --- what the owner does ---------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether what is sent may still arrive."""
        return self._transport is not None and not self._ended.is_set() and not self._transport.is_closing()

    def send(self, message: Any) -> None:
        """Send a message, with whatever else this turn of the event loop sends; dropped where the link has ended."""
        if not self.is_open:
            return
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(frame(message))

    async def writable(self) -> None:
        """Return once the other end has taken most of what was sent, or the link has ended."""
        await self._writable.wait()

    def close(self, reason: str) -> None:
        """End the link, once what was sent is on its way."""
        if self._ended.is_set():
            return
        self._reason = reason
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            self._transport.close()

    async def wait_ended(self) -> str:
        """Return once the link has ended, with the reason."""
        await self._ended.wait()
        return self._reason

    def fact(self, name: str) -> Any:
        """Return what the transport knows of the connection, such as ``peercert``; None where it knows nothing."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    # --- what the event loop does ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._heart = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Hand on each message; whatever can't be understood ends the link."""
        self._silent_beats = 0
        try:
            for body in self._splitter.feed(data):
                if body and self.is_open:
                    self._on_message(self._decoder.decode(body))
        except (ValueError, msgspec.MsgspecError) as error:
            _log.error("a link's other end is not understood", extra={"reason": str(error)})
            self._abort(f"not understood: {error}")

    def pause_writing(self) -> None:
        """The other end reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner, once."""
        if self._ended.is_set():
            return
        if exc is not None:
            self._reason = str(exc) or type(exc).__name__
        if self._heart is not None:
            self._heart.cancel()
        self._ended.set()
        self._writable.set()
        self._on_end(self._reason)

    def _flush(self) -> None:
        if self._outbox and self.is_open:
            assert self._transport is not None
            self._transport.write(b"".join(self._outbox))
            if self._transport.get_write_buffer_size() > _UNSENT_BYTES_MAX:
                self._abort("the other end reads nothing")
        self._outbox.clear()

    def _beat(self) -> None:
        self._silent_beats += 1
        if self._silent_beats > _SILENT_BEATS_MAX:
            self._abort("nothing was heard for too long")
            return
        if self.is_open:
            assert self._transport is not None
            if not self._transport.get_write_buffer_size():
                self._transport.write(_BEAT)
        # Also once it is closed: an end that never reads the last words would keep it half open.
        self._heart = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def _abort(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()
