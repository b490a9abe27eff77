"""A transport that sends a response's head together with what follows it.

uvicorn writes head and body apart, and uvloop hands each write to the kernel at once: two system calls and two
packets for every answer, where one will do.
"""

import asyncio
from typing import Any

_HEAD = b"HTTP/1.1 "
_CONTINUE = b"HTTP/1.1 100 "
_HEAD_ENDS = b"\r\n\r\n"


class JoinedWrites(asyncio.Transport):
    """Passes everything on; a head waits for the next write, `flush` or the end of the connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._write = transport.write
        #: A head that waits for its body.
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send what was held and this, or hold it if it is a head."""
        if self._held:
            held, self._held = self._held, b""
            self._write(held + data)
        elif isinstance(data, bytes) and data.startswith(_HEAD) and _is_final_head(data):
            self._held = data
        else:
            self._write(data)

    def flush(self) -> None:
        """Send a head that nothing follows."""
        if self._held:
            held, self._held = self._held, b""
            self._write(held)

    def close(self) -> None:
        """Close once everything written is sent."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._held = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no more from the peer for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take from the peer again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below knows of its socket."""
        return self._transport.get_extra_info(name, default)


def _is_final_head(content: bytes) -> bool:
    """Whether the head is an answer's own, not an interim one, which the peer waits for."""
    return content.endswith(_HEAD_ENDS) and not content.startswith(_CONTINUE)
