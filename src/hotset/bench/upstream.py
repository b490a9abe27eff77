"""The canned upstream that peers relay to: an OpenAI server of prepared bytes on raw asyncio protocols.

``python -m hotset.bench.upstream --tokens N --chunks M`` prints its port and serves until its standard input ends. The
texts are those of `engines.instant` for the bare base, so that one client checks every side alike. A stream's chunks
are written one by one, each its own event, back to back; a request to the model ``stepwise`` gets them one a turn of
the event loop, as an engine's steps bring them.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import cast

import msgspec

from hotset.engines.instant import instant_text

_CREATED = 1_700_000_000


def canned_text(num_tokens: int) -> str:
    """Return the text of an answer of this many tokens."""
    return "".join(instant_text(None, position) for position in range(num_tokens))


def canned_json(num_tokens: int) -> bytes:
    """Return the whole HTTP response to a request without a stream."""
    message = {"role": "assistant", "content": canned_text(num_tokens)}
    usage = {"prompt_tokens": 9, "completion_tokens": num_tokens, "total_tokens": 9 + num_tokens}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "length"}
    body = _encode({**_head("chat.completion"), "choices": [choice], "usage": usage})
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def canned_stream(num_chunks: int) -> list[bytes]:
    """Return the HTTP pieces of a stream: the head, one piece an event, the end."""
    kind = b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked"
    pieces = [b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n"]
    for position in range(num_chunks):
        delta = {"content": instant_text(None, position)}
        if position == 0:
            delta["role"] = "assistant"
        reason = "length" if position == num_chunks - 1 else None
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        pieces.append(_chunk(b"data: " + _encode({**_head("chat.completion.chunk"), "choices": [choice]}) + b"\n\n"))
    return [*pieces, _chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]


def _head(kind: str) -> dict[str, object]:
    return {"id": "chatcmpl-canned", "object": kind, "created": _CREATED, "model": "base"}


def _encode(message: object) -> bytes:
    return msgspec.json.encode(message)


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


_MODELS = _encode(
    {"object": "list", "data": [{"id": "base", "object": "model", "created": _CREATED, "owned_by": "bench"}]}
)
_OTHER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_MODELS),
    _MODELS,
)


class Upstream(asyncio.Protocol):
    """One connection: reads requests by their length, answers each with prepared bytes."""

    def __init__(self, answer: bytes, stream: list[bytes]) -> None:
        self._answer = answer
        self._stream = stream
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._received += data
        while (end := request_end(self._received)) is not None:
            request, self._received = self._received[:end], self._received[end:]
            self._reply(request)

    def _reply(self, request: bytes) -> None:
        assert self._transport is not None
        if not request.startswith(b"POST"):
            self._transport.write(_OTHER)
        elif b'"stream":true' in request or b'"stream": true' in request:
            if b'"stepwise"' in request:
                self._step(iter(self._stream))
            else:
                for piece in self._stream:
                    self._transport.write(piece)
        else:
            self._transport.write(self._answer)

    def _step(self, pieces: Iterator[bytes]) -> None:
        """Write one piece now and the next in the loop's next turn."""
        assert self._transport is not None
        piece = next(pieces, None)
        if piece is not None and not self._transport.is_closing():
            self._transport.write(piece)
            asyncio.get_running_loop().call_soon(self._step, pieces)


def request_end(received: bytes) -> int | None:
    """Return where the first request ends; None while it is not complete. Chunked bodies are read too."""
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    head = received[:head_end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        end = head_end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])
        return end if len(received) >= end else None
    if b"\r\ntransfer-encoding: chunked" in head:
        last = received.find(b"\r\n0\r\n\r\n", head_end)
        return None if last < 0 else last + 7
    return head_end + 4


async def serve(num_tokens: int, num_chunks: int) -> None:
    """Serve on a free loopback port, print it, and go on until standard input ends."""
    answer, stream = canned_json(num_tokens), canned_stream(num_chunks)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(answer, stream), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


def main() -> int:
    """Run the upstream."""
    import uvloop  # not on every platform; only this process needs it

    parser = argparse.ArgumentParser(prog="hotset.bench.upstream")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--chunks", type=int, default=50)
    options = parser.parse_args()
    uvloop.run(serve(options.tokens, options.chunks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
