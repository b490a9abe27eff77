"""Reads the bodies of OpenAI's completions and chats, as far as the fake engine answers to them."""

import msgspec

from hotset.core.ids import RequestId
from hotset.core.messages import Generate, Message, Sampling

#: As vLLM, where a completion says nothing of its length.
_COMPLETION_TOKENS_DEFAULT = 16
#: One text, one list of token ids, or several of either.
_Prompt = str | list[str | int | list[int]]


class StreamOptions(msgspec.Struct):
    """What a stream tells beside its text."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Body(msgspec.Struct, kw_only=True):
    """What both kinds of request have."""

    model: str
    request_id: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = 1
    temperature: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    cache_salt: str | None = None
    #: SGLang's other way to name an adapter.
    lora_path: str | None = None

    @property
    def usage(self) -> StreamOptions:
        """Which usage a stream tells."""
        return self.stream_options or StreamOptions()


class ChatBody(Body, kw_only=True):
    """A chat."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None

    def generate(self, request_id: RequestId) -> Generate:
        """Return it as a request to the loop."""
        num_top = (self.top_logprobs or 0) if self.logprobs else None
        sampling = Sampling(
            max_tokens=self.max_completion_tokens or self.max_tokens, logprobs=num_top, ignore_eos=self.ignore_eos
        )
        return Generate(
            request_id=request_id,
            engine_name=None,
            cache_salt=self.cache_salt or "",
            sampling=sampling,
            messages=self.messages,
            n=self.n,
        )


class CompletionBody(Body, kw_only=True):
    """One prompt or several."""

    prompt: _Prompt
    max_tokens: int | None = _COMPLETION_TOKENS_DEFAULT
    logprobs: int | None = None

    def generate(self, request_id: RequestId) -> Generate:
        """Return it as a request to the loop."""
        sampling = Sampling(max_tokens=self.max_tokens, logprobs=self.logprobs, ignore_eos=self.ignore_eos)
        return Generate(
            request_id=request_id,
            engine_name=None,
            cache_salt=self.cache_salt or "",
            sampling=sampling,
            prompts=_prompts(self.prompt),
            n=self.n,
        )


def _prompts(prompt: _Prompt) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(prompt, str):
        return (prompt,)
    if prompt and isinstance(prompt[0], int):
        return (tuple(number for number in prompt if isinstance(number, int)),)
    return tuple(each if isinstance(each, str) else tuple(each) for each in prompt if not isinstance(each, int))
