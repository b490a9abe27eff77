"""The allow-list: every field of a request body that the embedded engine can serve, with its type and range.

A field that is not here does not exist for a tenant (``400 unsupported_parameter``), whatever an engine could do
with it. Ranges are checked while decoding.

Source: OpenAI API reference, chat and completions; vLLM's sampling parameters for top_k, min_p and
repetition_penalty.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_INT64_MAX = (1 << 63) - 1
_INT31_MAX = (1 << 31) - 1

_Tokens = Annotated[int, Meta(ge=1, le=_INT31_MAX)]
_Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
_TopLogprobs = Annotated[int, Meta(ge=0, le=20)]
_StopText = Annotated[str, Meta(min_length=1, max_length=256)]
_StopTexts = Annotated[list[_StopText], Meta(max_length=4)]
TokenIds = Annotated[list[Annotated[int, Meta(ge=0, le=_INT31_MAX)]], Meta(min_length=1)]


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of a message's content; media parts are not served."""

    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn as a client writes it. `refusal` is null in our own answers and may come back so."""

    role: Literal["system", "user", "assistant", "developer", "tool"]
    content: str | list[TextPart]
    refusal: None = None


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a stream tells beside the text."""

    include_usage: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer's form; plain text only."""

    type: Literal["text"]


class SharedBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields of both kinds of request."""

    model: str
    max_tokens: _Tokens | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    stop: _StopText | _StopTexts | None = None
    seed: Annotated[int, Meta(ge=-_INT64_MAX, le=_INT64_MAX)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    #: Accepted and ignored: the tenant comes from the key.
    user: str | None = None
    #: -1 and 0 are off.
    top_k: Annotated[int, Meta(ge=-1, le=_INT31_MAX)] | None = None
    min_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0.0, le=2.0)] | None = None


class ChatBody(SharedBody, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: _Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: _TopLogprobs | None = None
    response_format: ResponseFormat | None = None


class CompletionBody(SharedBody, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/completions``."""

    #: A text, texts, a prompt of token ids, or several.
    prompt: str | list[str | int | TokenIds]
    logprobs: _TopLogprobs | None = None
    echo: bool | None = None
