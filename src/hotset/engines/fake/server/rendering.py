"""Writes the loop's events as OpenAI's answers: whole ones, and streams with the usage that vLLM tells in them.

A chunk's own usage is that of its prompt and its choice so far; the last chunk, without choices, tells the sum.
Source: vLLM 0.33.0, `entrypoints/openai`.
"""

from dataclasses import dataclass, field

import msgspec

from hotset.core.messages import Delta, Failed, Finished, Generate, TokenLogprob
from hotset.engines.fake.answers import num_tokens, prompts_of
from hotset.engines.fake.server.bodies import StreamOptions
from hotset.engines.fake.server.refusal import ENGINE_DIED

_Json = dict[str, object]
DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class _Choice:
    text: str = ""
    num_tokens: int = 0
    finish_reason: str | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])


class Renderer:
    """One request's answer."""

    def __init__(self, request: Generate, *, model: str, created: int, usage: StreamOptions) -> None:
        self._request = request
        self._is_chat = request.messages is not None
        self._usage = usage
        self._prompt_tokens = [num_tokens(prompt) for prompt in prompts_of(request)]
        self._choices: dict[int, _Choice] = {}
        prefix, kind = ("chatcmpl", "chat.completion") if self._is_chat else ("cmpl", "text_completion")
        self._head: _Json = {"id": f"{prefix}-{request.request_id}", "created": created, "model": model}
        self._kind = kind

    def chunks(self, event: Delta) -> bytes:
        """Return a piece of text as events of a stream; a chat's choice begins with its role."""
        choice = self._choices.get(event.index)
        opening = b""
        if choice is None:
            choice = self._choices[event.index] = _Choice()
            if self._is_chat:
                delta = {"role": "assistant", "content": ""}
                opening = self._chunk(event.index, choice, {"delta": delta, "logprobs": None, "finish_reason": None})
        choice.num_tokens += event.num_tokens
        text: _Json = {"delta": {"content": event.text}} if self._is_chat else {"text": event.text}
        logprobs = None if event.logprobs is None else self._logprobs(event.logprobs)
        text |= {"logprobs": logprobs, "finish_reason": event.finish_reason}
        return opening + self._chunk(event.index, choice, text)

    def end(self, event: Finished | Failed) -> bytes:
        """Return the end of a stream: the usage of all, or what went wrong."""
        if isinstance(event, Failed):
            return _event(ENGINE_DIED.body()) + DONE
        if not self._usage.include_usage:
            return DONE
        usage = _usage(event.prompt_tokens, event.completion_tokens)
        return _event({**self._head, "object": self._stream_kind, "choices": [], "usage": usage}) + DONE

    def aborted(self) -> bytes:
        """Return the end of a stream whose request was aborted inside the engine."""
        index = max(self._choices, default=0)
        choice = self._choices.setdefault(index, _Choice())
        text: _Json = {"delta": {"content": ""}} if self._is_chat else {"text": ""}
        return self._chunk(index, choice, {**text, "logprobs": None, "finish_reason": "abort"}) + DONE

    def collect(self, event: Delta) -> None:
        """Keep a piece of text for a whole answer."""
        choice = self._choices.setdefault(event.index, _Choice())
        choice.text += event.text
        choice.num_tokens += event.num_tokens
        choice.finish_reason = event.finish_reason
        choice.logprobs += event.logprobs or ()

    def whole(self, event: Finished) -> _Json:
        """Return a whole answer."""
        choices = [self._whole_choice(index, self._choices[index]) for index in sorted(self._choices)]
        usage = _usage(event.prompt_tokens, event.completion_tokens)
        return {**self._head, "object": self._kind, "choices": choices, "usage": usage}

    @property
    def _stream_kind(self) -> str:
        return "chat.completion.chunk" if self._is_chat else "text_completion"

    def _chunk(self, index: int, choice: _Choice, content: _Json) -> bytes:
        chunk: _Json = {**self._head, "object": self._stream_kind, "choices": [{"index": index, **content}]}
        if self._usage.continuous_usage_stats:
            chunk["usage"] = _usage(self._prompt_tokens[index // self._request.n], choice.num_tokens)
        return _event(chunk)

    def _whole_choice(self, index: int, choice: _Choice) -> _Json:
        logprobs = self._logprobs(choice.logprobs) if choice.logprobs else None
        text: _Json = {"text": choice.text}
        if self._is_chat:
            text = {"message": {"role": "assistant", "content": choice.text}}
        return {"index": index, **text, "logprobs": logprobs, "finish_reason": choice.finish_reason}

    def _logprobs(self, logprobs: list[TokenLogprob] | tuple[TokenLogprob, ...]) -> _Json:
        if self._is_chat:
            return {"content": [_of_chat(each) for each in logprobs]}
        return {
            "tokens": [each.token for each in logprobs],
            "token_logprobs": [each.logprob for each in logprobs],
            "top_logprobs": [{other.token: other.logprob for other in each.top} for each in logprobs],
        }


def _of_chat(one: TokenLogprob) -> _Json:
    tops = [_of_chat(top) for top in one.top]
    return {"token": one.token, "logprob": one.logprob, "bytes": list(one.content), "top_logprobs": tops}


def _usage(prompt: int, completion: int) -> _Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(content: _Json) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
