"""Frames over a byte stream: a 4-byte big-endian length and a MessagePack body, bounded in size."""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

_LENGTH = struct.Struct(">I")
#: Larger frames mean a broken peer: a request body is bounded far below.
FRAME_BYTES_MAX = 64 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()


class FrameSplitter:
    """Cuts a byte stream into frame bodies; holds at most one incomplete frame."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each body that is complete now.

        Raises:
            ValueError: a frame longer than the bound; the connection is beyond repair.
        """
        self._buffer += chunk
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._bytes_max:
                raise ValueError(f"frame of {length} bytes")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]


def frame(message: Any) -> bytes:
    """Return a message as one frame.

    Raises:
        ValueError: it is longer than `FRAME_BYTES_MAX`.
    """
    body = _encoder.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"a message of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body
