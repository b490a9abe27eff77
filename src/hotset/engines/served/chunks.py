"""Reads the chunks of a streamed completion, of a chat or of prompts, as an engine's events.

The engine's own words never get further than a log: what a request ends with is ours, by its code.
"""

import logging
from collections.abc import Sequence

import msgspec

from hotset.core.errors import EngineFailedError
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, FinishReason, Started, TokenLogprob

_log = logging.getLogger(__name__)
_DONE = b"[DONE]"
_REASONS: dict[str, FinishReason] = {"length": "length", "abort": "cancelled"}


class _Likelihood(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list["_Likelihood"] = []


class _Logprobs(msgspec.Struct):
    """Of a chat: `content`. Of a completion: the other three, side by side."""

    content: list[_Likelihood] | None = None
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class _Piece(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Piece | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0


class _Fault(msgspec.Struct):
    message: str = ""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Fault | None = None


_DECODER = msgspec.json.Decoder(_Chunk)


class ChunkReader:
    """One answer.

    `Started` says how long all prompts are, which a chunk says of its own prompt alone: of several prompts, what comes
    is held back until each has spoken.
    """

    def __init__(self, request_id: RequestId, *, num_prompts: int, num_samples: int) -> None:
        self._request_id = request_id
        self._num_prompts = num_prompts
        self._num_samples = num_samples
        #: Of each prompt that has spoken.
        self._prompt_tokens: dict[int, int] = {}
        self._held_back: list[EngineEvent] = []
        self._has_begun = False
        #: Tokens so far, by choice.
        self._tokens: dict[int, int] = {}
        self._usage: _Usage | None = None
        #: Whether the last event was told.
        self.has_ended = False

    def read(self, payloads: Sequence[bytes]) -> list[EngineEvent]:
        """Return the events that some chunks bring.

        Raises:
            EngineFailedError: one of them is none.
        """
        events: list[EngineEvent] = []
        for payload in payloads:
            if self.has_ended:
                break
            events += self._end() if payload == _DONE else self._read_chunk(payload)
        return events

    def _read_chunk(self, payload: bytes) -> list[EngineEvent]:
        try:
            chunk = _DECODER.decode(payload)
        except msgspec.DecodeError as error:
            raise EngineFailedError("the engine sent a chunk that can't be read") from error
        if chunk.error is not None:
            self.has_ended = True
            _log.error("the engine failed a request", extra={"reason": chunk.error.message[:500]})
            return [Failed(self._request_id, EngineFailedError.code, EngineFailedError().message)]
        if not chunk.choices:
            self._usage = chunk.usage or self._usage
            return []
        events = [event for choice in chunk.choices for event in self._read_choice(choice, chunk.usage)]
        return self._after_start(events)

    def _read_choice(self, choice: _Choice, usage: _Usage | None) -> list[EngineEvent]:
        prompt = choice.index // self._num_samples
        self._prompt_tokens.setdefault(prompt, usage.prompt_tokens if usage else 0)
        text = (choice.delta.content if choice.delta else choice.text) or ""
        so_far = self._tokens.get(choice.index, 0)
        told = usage.completion_tokens if usage else None
        total = max(so_far, told) if told is not None else so_far + bool(text)
        self._tokens[choice.index] = total
        if not text and total == so_far and choice.finish_reason is None:
            return []  # a chat's first chunk gives the role alone
        reason = None if choice.finish_reason is None else _REASONS.get(choice.finish_reason, "stop")
        logprobs = None if choice.logprobs is None else _logprobs(choice.logprobs)
        return [Delta(self._request_id, choice.index, text, total - so_far, reason, logprobs)]

    def _after_start(self, events: list[EngineEvent]) -> list[EngineEvent]:
        """Return events that may be told now, with a `Started` before the first of all."""
        if self._has_begun:
            return events
        self._held_back += events
        self._has_begun = len(self._prompt_tokens) >= self._num_prompts
        if not self._has_begun:
            return []
        return [Started(self._request_id, sum(self._prompt_tokens.values())), *self._held_back]

    def _end(self) -> list[EngineEvent]:
        self.has_ended = True
        if not self._has_begun:
            _log.error("the engine ended an answer before it began", extra={"request_id": self._request_id})
            return [Failed(self._request_id, EngineFailedError.code, EngineFailedError().message)]
        completion = sum(self._tokens.values())
        prompt = sum(self._prompt_tokens.values())
        if self._usage is not None:
            prompt, completion = self._usage.prompt_tokens, self._usage.completion_tokens or completion
        return [Finished(self._request_id, prompt, completion)]


def _logprobs(logprobs: _Logprobs) -> tuple[TokenLogprob, ...]:
    if logprobs.content is not None:
        return tuple(_of_chat(each) for each in logprobs.content)
    tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
    rows = zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=False)
    return tuple(
        TokenLogprob(
            token,
            token.encode(),
            logprob or 0.0,
            tuple(TokenLogprob(other, other.encode(), value) for other, value in (top or {}).items()),
        )
        for token, logprob, top in rows
    )


def _of_chat(one: _Likelihood) -> TokenLogprob:
    content = one.token.encode() if one.bytes is None else bytes(one.bytes)
    return TokenLogprob(one.token, content, one.logprob, tuple(_of_chat(top) for top in one.top_logprobs))
