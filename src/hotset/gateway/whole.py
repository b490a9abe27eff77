"""An answer that is not streamed: deltas are gathered by choice and rendered once, at the end.

Its size is bounded by the request's own ``max_tokens`` and the model's context, never by what a peer sends.
"""

import msgspec

from hotset.core.messages import Delta, TokenLogprob
from hotset.gateway.endpoints import CHAT, Endpoint
from hotset.gateway.sse import json_text, usage_json

_encode = msgspec.json.encode


class WholeAnswer:
    """Gathers one answer."""

    def __init__(self, num_choices: int, *, with_logprobs: bool) -> None:
        self._texts: list[list[str]] = [[] for _ in range(num_choices)]
        self._reasons: list[str | None] = [None] * num_choices
        self._logprobs: list[list[TokenLogprob]] | None = [[] for _ in range(num_choices)] if with_logprobs else None

    def add(self, delta: Delta) -> None:
        """Take one more piece of one choice."""
        if delta.text:
            self._texts[delta.index].append(delta.text)
        if delta.finish_reason is not None:
            self._reasons[delta.index] = delta.finish_reason
        if self._logprobs is not None and delta.logprobs is not None:
            self._logprobs[delta.index].extend(delta.logprobs)

    def body(
        self,
        endpoint: Endpoint,
        *,
        answer_id: str,
        created: int,
        model: str,
        prompt_tokens: int,
        completion_tokens: int,
    ) -> bytes:
        """Return the answer's JSON."""
        head = _encode({"id": answer_id, "object": endpoint.object, "created": created, "model": model})
        choices = b",".join(self._choice(endpoint, index) for index in range(len(self._texts)))
        return b"".join(
            (
                head[:-1],
                b',"choices":[',
                choices,
                b'],"usage":',
                usage_json(prompt_tokens, completion_tokens),
                b"}",
            )
        )

    def _choice(self, endpoint: Endpoint, index: int) -> bytes:
        text = json_text("".join(self._texts[index]))
        if endpoint.object == CHAT.object:
            member = b'"message":{"role":"assistant","content":' + text + b',"refusal":null}'
        else:
            member = b'"text":' + text
        logprobs = b"null"
        if self._logprobs is not None:
            logprobs = _encode(endpoint.logprobs_of()(tuple(self._logprobs[index])))
        return b'{"index":%d,%s,"logprobs":%s,"finish_reason":%s}' % (
            index,
            member,
            logprobs,
            _encode(self._reasons[index] or "stop"),
        )
