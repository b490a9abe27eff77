"""``/v1/responses``: from a body to what is asked, and from a job to the response object that stands for it.

Only background responses are served, and each is kept as a job; so a response is what its job is. What is asked is
a chat: the instructions are its first message.

Source: OpenAI API reference, the response object and background mode.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hotset.admission.job_life import JobState
from hotset.core.errors import InvalidRequestError, UnsupportedParameterError
from hotset.core.messages import Message, Sampling
from hotset.gateway.decoding import decode_body, refuse_doubles
from hotset.gateway.parse import Asked
from hotset.gateway.settings import GatewaySettings

_Role = Literal["system", "user", "assistant", "developer"]
_MetadataName = Annotated[str, Meta(max_length=64)]
_MetadataText = Annotated[str, Meta(max_length=512)]


class InputPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of an input's content; a response's own parts may come back as they went out."""

    type: Literal["input_text", "output_text"]
    text: str
    annotations: Annotated[list[object], Meta(max_length=0)] | None = None
    logprobs: Annotated[list[object], Meta(max_length=0)] | None = None


class InputItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn; a response's own output may come back as it went out."""

    role: _Role
    content: str | list[InputPart]
    type: Literal["message"] | None = None
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class TextFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer's form; plain text only."""

    type: Literal["text"]


class TextOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the answer's text is to be."""

    format: TextFormat | None = None


class ResponseBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/responses``."""

    model: str
    #: A text, or turns.
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    instructions: str | None = None
    #: Must be true.
    background: bool | None = None
    #: Must not be false: what is answered later is kept until then.
    store: bool | None = None
    #: Must not be true.
    stream: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    metadata: Annotated[dict[_MetadataName, _MetadataText], Meta(max_length=16)] | None = None
    text: TextOptions | None = None
    truncation: Literal["disabled"] | None = None
    #: Accepted and ignored: the tenant comes from the key.
    user: str | None = None


_decode = msgspec.json.Decoder(ResponseBody).decode

_STATUS: Mapping[JobState, str] = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "in_progress",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
    JobState.EXPIRED: "failed",
}


def parse_response(body: bytes, settings: GatewaySettings) -> Asked:
    """Parse the body of a background response.

    Raises:
        InvalidRequestError: not JSON, a missing field, a wrong type or a value out of range; or no background response.
        UnsupportedParameterError: a field that is not served, or one that appears twice.
    """
    asked = decode_body(_decode, body)
    refuse_doubles(body)
    if asked.stream:
        raise UnsupportedParameterError("A background response is not streamed here: retrieve it.", param="stream")
    if not asked.background:
        raise InvalidRequestError("Only background responses are served: set 'background' to true.", param="background")
    if asked.store is False:
        raise InvalidRequestError("A background response is kept until it is read or expires.", param="store")
    messages = tuple(_messages(asked))
    if len(messages) > settings.messages_max:
        raise InvalidRequestError(f"At most {settings.messages_max} messages are taken.", param="input")
    return Asked(
        model=asked.model,
        stream=False,
        include_usage=False,
        sampling=Sampling(
            temperature=1.0 if asked.temperature is None else asked.temperature,
            top_p=1.0 if asked.top_p is None else asked.top_p,
            max_tokens=asked.max_output_tokens,
        ),
        n=1,
        num_choices=1,
        messages=messages,
        in_background=True,
    )


def response_object(
    *,
    response_id: str,
    state: JobState,
    created_at_s: float,
    ended_at_s: float | None,
    body: bytes,
    chat: bytes | None,
    error: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the response object of a job.

    Args:
        response_id: The job's id.
        state: The job's state.
        created_at_s: Wall-clock seconds.
        ended_at_s: Likewise; None where it has not ended.
        body: What was asked.
        chat: The chat completion that it came to, where it is completed.
        error: ``code`` and ``message`` of what it ended with, where it failed.
    """
    asked = _decode(body)
    answer: dict[str, Any] | None = None if chat is None else msgspec.json.decode(chat)
    is_cut = answer is not None and answer["choices"][0]["finish_reason"] == "length"
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(created_at_s),
        "completed_at": int(ended_at_s) if ended_at_s is not None and state is JobState.COMPLETED else None,
        "status": "incomplete" if is_cut else _STATUS[state],
        "background": True,
        "error": None if error is None else {"code": error["code"], "message": error["message"]},
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata or {},
        "model": asked.model,
        "output": [] if answer is None else [_output(response_id, answer, is_cut=is_cut)],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": True,
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "truncation": "disabled",
        "usage": None if answer is None else _usage(answer["usage"]),
        "user": asked.user,
    }


def _messages(asked: ResponseBody) -> list[Message]:
    messages = [] if asked.instructions is None else [Message(role="system", content=asked.instructions)]
    if isinstance(asked.input, str):
        return [*messages, Message(role="user", content=asked.input)]
    return [*messages, *(Message(role=item.role, content=_content(item)) for item in asked.input)]


def _content(item: InputItem) -> str:
    return item.content if isinstance(item.content, str) else "".join(part.text for part in item.content)


def _output(response_id: str, answer: Mapping[str, Any], *, is_cut: bool) -> dict[str, Any]:
    text = answer["choices"][0]["message"]["content"]
    return {
        "id": response_id.replace("resp_", "msg_", 1),
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if is_cut else "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _usage(usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }
