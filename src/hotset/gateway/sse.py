"""Chunks of a stream as server-sent events, in the shape of OpenAI's two streaming APIs.

All that a stream repeats is rendered once; a chunk encodes only its text. Every event is one ``data:`` line: JSON
escapes line feeds, and the separators that some line readers also split at are escaped here.

Source: OpenAI API reference, chat completion chunk and completion objects; the HTML standard, 9.2.6.
"""

import msgspec

from hotset.core.messages import Delta
from hotset.gateway.endpoints import Endpoint, LogprobsOf

DONE = b"data: [DONE]\n\n"
#: A comment, which every reader of events passes over.
COMMENT = b": waiting\n\n"

_encode = msgspec.json.encode


def json_text(text: str) -> bytes:
    """Return the text as a JSON string without any character that a line reader might split at."""
    if text.isascii():
        return _encode(text)
    try:
        encoded = _encode(text)
    except UnicodeEncodeError:
        encoded = _encode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return (
        encoded.replace(b"\xc2\x85", b"\\u0085")
        .replace(b"\xe2\x80\xa8", b"\\u2028")
        .replace(b"\xe2\x80\xa9", b"\\u2029")
    )


class Chunks:
    """Renders the chunks of one stream and gathers those that are to go out together."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        answer_id: str,
        created: int,
        model: str,
        num_choices: int,
        include_usage: bool,
    ) -> None:
        head = _encode({"id": answer_id, "object": endpoint.chunk_object, "created": created, "model": model})
        self._head = b"data: " + head[:-1] + b',"choices":['
        self._endpoint = endpoint
        #: OpenAI shows a null usage in every chunk of a stream that ends with a real one.
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._before = [self._head + b'{"index":%d,' % index + endpoint.before_text for index in range(num_choices)]
        self._after = endpoint.after_text + b',"logprobs":null,"finish_reason":null}' + self._tail
        self._ready: list[bytes] = []
        self._logprobs: list[LogprobsOf] = [endpoint.logprobs_of() for _ in range(num_choices)]

    def opening(self) -> bytes:
        """Return what comes before the first delta: for a chat, each choice's role."""
        opening = self._endpoint.opening
        if not opening:
            return b""
        return b"".join(
            self._head + b'{"index":%d,' % index + opening + b',"logprobs":null,"finish_reason":null}' + self._tail
            for index in range(len(self._before))
        )

    def add(self, delta: Delta) -> None:
        """Render one delta's chunk; a delta that says nothing has none."""
        text = delta.text
        if delta.finish_reason is not None or delta.logprobs is not None:
            self._ready.append(self._full_delta(delta))
        elif text:
            encoded = _encode(text) if text.isascii() else json_text(text)
            self._ready.append(self._before[delta.index] + encoded + self._after)

    def take(self) -> bytes:
        """Return the chunks rendered since the last call; empty where there are none."""
        ready = self._ready
        if len(ready) == 1:
            return ready.pop()
        chunks = b"".join(ready)
        ready.clear()
        return chunks

    def usage(self, prompt_tokens: int, completion_tokens: int) -> bytes:
        """Return the last chunk of a stream that was asked for its usage: no choices."""
        return b"".join((self._head, b'],"usage":', usage_json(prompt_tokens, completion_tokens), b"}\n\n"))

    def _full_delta(self, delta: Delta) -> bytes:
        endpoint = self._endpoint
        if delta.text or not endpoint.empty_text:
            text = endpoint.before_text + json_text(delta.text) + endpoint.after_text
        else:
            text = endpoint.empty_text
        logprobs = b"null"
        if delta.logprobs is not None:
            logprobs = _encode(self._logprobs[delta.index](delta.logprobs))
        reason = b"null" if delta.finish_reason is None else b'"%s"' % delta.finish_reason.encode()
        return b"".join(
            (
                self._head,
                b'{"index":%d,' % delta.index,
                text,
                b',"logprobs":',
                logprobs,
                b',"finish_reason":',
                reason,
                b"}",
                self._tail,
            )
        )


def usage_json(prompt_tokens: int, completion_tokens: int) -> bytes:
    """Return the usage object of both APIs."""
    return b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (
        prompt_tokens,
        completion_tokens,
        prompt_tokens + completion_tokens,
    )
