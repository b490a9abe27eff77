"""Takes server-sent events apart as their bytes arrive, in memory bounded by one event.

Source: WHATWG HTML, server-sent events; engines send ``data:`` lines and comments alone.
"""

from hotset.core.errors import EngineFailedError

#: One token with twenty alternatives takes a few KiB.
EVENT_BYTES_MAX = 1 << 20


class SseSplitter:
    """The bytes of one stream."""

    __slots__ = ("_rest", "_scanned")

    def __init__(self) -> None:
        self._rest = bytearray()
        #: Bytes of the rest that are known to hold no line's end.
        self._scanned = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next bytes; return what the whole ``data:`` lines in them say.

        Raises:
            EngineFailedError: a line is longer than any event may be.
        """
        rest = self._rest
        rest += piece
        found: list[bytes] = []
        begin = 0
        while (end := rest.find(b"\n", max(begin, self._scanned))) >= 0:
            line = bytes(rest[begin:end]).rstrip(b"\r")
            if line.startswith(b"data:"):
                found.append(line[5:].lstrip(b" "))
            begin = end + 1
        del rest[:begin]
        self._scanned = len(rest)
        if len(rest) > EVENT_BYTES_MAX:
            raise EngineFailedError("the engine sent an event without an end")
        return found
