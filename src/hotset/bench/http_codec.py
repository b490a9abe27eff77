"""HTTP/1.1 and SSE as bytes, without sockets: what the load generator sends and what it reads back.

Only what a benchmark's client needs: a length or chunked framing, no trailers, no compression. A stream is
*whole* when it holds exactly the expected non-empty content deltas and ``[DONE]`` comes last.
"""

from dataclasses import dataclass

import msgspec


class ProtocolBrokenError(ValueError):
    """The bytes are not an HTTP response that this client reads."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole response."""

    status: int
    body: bytes
    #: The server closes the connection after it.
    closes: bool


def encode_request(host: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return a POST request of JSON as bytes, ready to be sent again and again."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


class ResponseReader:
    """Collects the bytes of one response at a time on one connection."""

    __slots__ = ("_body_at", "_closes", "_length", "_raw", "_status")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._raw = bytearray()
        #: Where the body starts; 0 while the head is not complete.
        self._body_at = 0
        #: Bytes of the body; -1 for a chunked one.
        self._length = 0
        self._status = 0
        self._closes = False

    def feed(self, piece: bytes) -> Answer | None:
        """Take the next bytes of the connection; return the answer once it is whole.

        Raises:
            ProtocolBrokenError: the bytes are not a response, or more bytes follow than were asked for.
        """
        raw = self._raw
        raw += piece
        if not self._body_at and not self._read_head(raw):
            return None
        if self._length >= 0:
            end = self._body_at + self._length
            if len(raw) < end:
                return None
            if len(raw) > end:
                raise ProtocolBrokenError("bytes after the end of the response")
            return self._finish(bytes(raw[self._body_at :]))
        if not raw.endswith(b"0\r\n\r\n"):
            return None
        body = decode_chunks(bytes(raw), self._body_at)
        return None if body is None else self._finish(body)

    def _finish(self, body: bytes) -> Answer:
        answer = Answer(self._status, body, self._closes)
        self._reset()
        return answer

    def _read_head(self, raw: bytearray) -> bool:
        head_end = raw.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        if not raw.startswith(b"HTTP/1.1 "):
            raise ProtocolBrokenError(f"not an HTTP/1.1 response: {bytes(raw[:40])!r}")
        head = bytes(raw[:head_end]).lower()
        self._status = int(raw[9:12])
        self._closes = b"\r\nconnection: close" in head
        self._body_at = head_end + 4
        self._length = _framing(head)
        return True


def _framing(head: bytes) -> int:
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        return int(head[at + 17 :].split(b"\r\n", 1)[0])
    if b"\r\ntransfer-encoding: chunked" in head:
        return -1
    raise ProtocolBrokenError("a response with neither a length nor chunks")


def decode_chunks(raw: bytes, at: int) -> bytes | None:
    """Return the body of the chunked response whose first chunk starts at `at`; None until it is complete.

    Raises:
        ProtocolBrokenError: a chunk size that is no hexadecimal number, or bytes after the last chunk.
    """
    pieces: list[bytes] = []
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            return None
        try:
            size = int(raw[at:line_end], 16)
        except ValueError as error:
            raise ProtocolBrokenError(f"chunk size {raw[at:line_end][:20]!r}") from error
        if size == 0:
            if len(raw) > line_end + 4:
                raise ProtocolBrokenError("bytes after the last chunk")
            return b"".join(pieces) if len(raw) == line_end + 4 else None
        at = line_end + 2
        if len(raw) < at + size + 2:
            return None
        pieces.append(raw[at : at + size])
        at += size + 2


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Payload(msgspec.Struct):
    choices: list[_Choice] = []


_DECODER = msgspec.json.Decoder(_Payload)


@dataclass(frozen=True, slots=True)
class Content:
    """What an answer held."""

    text: str
    #: Non-empty pieces of content, each its own event in a stream.
    num_pieces: int
    #: Every choice gave a finish reason and, in a stream, ``[DONE]`` came last.
    is_finished: bool


def read_json(body: bytes) -> Content:
    """Return what a whole JSON answer holds: one piece where its message has content.

    Raises:
        ProtocolBrokenError: the body is not a chat completion.
    """
    payload = _decode(body)
    pieces = [choice.message.content for choice in payload.choices if choice.message and choice.message.content]
    is_finished = bool(payload.choices) and all(choice.finish_reason for choice in payload.choices)
    return Content("".join(pieces), len(pieces), is_finished)


def read_events(body: bytes) -> Content:
    """Return what a whole SSE answer holds, decoding each of its events.

    Raises:
        ProtocolBrokenError: an event that is no chat completion chunk, or bytes outside an event.
    """
    pieces: list[str] = []
    has_reason = is_done = False
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        if not event or event.startswith(b":"):
            continue
        if is_done or not event.startswith(b"data: "):
            raise ProtocolBrokenError(f"outside an event, or after the last: {event[:80]!r}")
        if event == b"data: [DONE]":
            is_done = True
            continue
        for choice in _decode(event[6:]).choices:
            if choice.delta and choice.delta.content:
                pieces.append(choice.delta.content)
            has_reason = has_reason or choice.finish_reason is not None
    return Content("".join(pieces), len(pieces), is_done and has_reason)


def _decode(text: bytes) -> _Payload:
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError as error:
        raise ProtocolBrokenError(f"{error}: {text[:80]!r}") from error


class AnswerCheck:
    """Tells whether answers hold what they should; cheap for an answer like an earlier one.

    An answer that differs from one found good only in its id (the value of its first ``"id"``) is good as
    well; any other is decoded event by event. So every answer is checked whole, and the client stays
    cheaper than the servers.
    """

    def __init__(self, *, is_stream: bool, kept_max: int = 64) -> None:
        self._is_stream = is_stream
        self._kept_max = kept_max
        #: Answers found good, less their id, with the text they hold and in how many pieces.
        self._good: dict[bytes, tuple[str, int]] = {}

    def fault(self, body: bytes, text: str, num_pieces: int) -> str | None:
        """Return what is wrong with an answer that should hold `text`, in `num_pieces` if it is a stream."""
        likeness = _without_id(body)
        if self._good.get(likeness) == (text, num_pieces):
            return None
        try:
            content = read_events(body) if self._is_stream else read_json(body)
        except ProtocolBrokenError as error:
            return str(error)
        if content.text != text:
            return f"other text: {content.text[:40]!r} for {text[:40]!r}"
        if self._is_stream and content.num_pieces != num_pieces:
            return f"{content.num_pieces} pieces for {num_pieces}"
        if not content.is_finished:
            return "no end"
        if len(self._good) >= self._kept_max:
            self._good.clear()
        self._good[likeness] = (text, num_pieces)
        return None


def _without_id(body: bytes) -> bytes:
    at = body.find(b'"id":')
    end = body.find(b",", at) if at >= 0 else -1
    return body if end < 0 else body.replace(body[at:end], b"")
