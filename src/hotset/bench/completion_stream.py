"""What a gateway's answer to a completion says, without sockets: the lines of a stream, and the body of a refusal."""

from dataclasses import dataclass

import msgspec

from hotset.core import errors

_DONE = "data: [DONE]"
_EVENT_HEAD = "data: "
#: A request that ends so had been let in.
_AFTER_ACCEPTANCE = frozenset(
    leaf.code
    for leaf in (
        errors.FirstTokenBudgetExceededError,
        errors.SlotReclaimedError,
        errors.LoadFailedError,
        errors.EngineFailedError,
        errors.EngineTimeoutError,
    )
)


class AnswerBrokenError(ValueError):
    """A line is no event of a completion's stream."""


class _Choice(msgspec.Struct):
    text: str = ""


class _Usage(msgspec.Struct):
    completion_tokens: int = 0


class _Error(msgspec.Struct):
    code: str | None = None
    message: str = ""


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None
    retry_after_ms: int | None = None


_DECODER = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class Told:
    """What one line of a stream says; a comment and an empty line say nothing."""

    #: Whether it brings text.
    has_text: bool = False
    #: Tokens of the whole answer, from the usage at its end.
    num_tokens: int | None = None
    #: Of the error that ends the stream.
    code: str = ""
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that is no completion."""

    code: str
    message: str
    #: Of one that was turned away for now.
    retry_after_ms: int | None
    #: Whether the request was turned away before it ran.
    is_refused: bool
    #: Whether the same request may be served later; where not, there is no use in going on.
    is_passing: bool


def read_line(line: str) -> Told:
    """Return what a line of a stream says.

    Raises:
        AnswerBrokenError: it is no event of a completion.
    """
    if not line or line.startswith(":"):
        return Told()
    if line == _DONE:
        return Told(is_end=True)
    try:
        event = _DECODER.decode(line.removeprefix(_EVENT_HEAD)) if line.startswith(_EVENT_HEAD) else None
    except msgspec.DecodeError as error:
        raise AnswerBrokenError(f"{error}: {line[:80]!r}") from error
    if event is None:
        raise AnswerBrokenError(f"no event: {line[:80]!r}")
    if event.error is not None:
        return Told(code=event.error.code or "unknown", is_end=True)
    num_tokens = event.usage.completion_tokens if event.usage is not None else None
    return Told(has_text=any(choice.text for choice in event.choices), num_tokens=num_tokens)


def read_refusal(status: int, body: bytes) -> Refused:
    """Return what an answer other than 200 says; of one that is not Hotset's, its status is the code."""
    code, message, retry_after_ms = f"status_{status}", body[:120].decode(errors="replace"), None
    try:
        event = _DECODER.decode(body)
    except msgspec.DecodeError:
        event = _Event()
    if event.error is not None:
        code, message, retry_after_ms = event.error.code or code, event.error.message, event.retry_after_ms
    is_refused = code not in _AFTER_ACCEPTANCE
    return Refused(
        code=code,
        message=message,
        retry_after_ms=retry_after_ms if is_refused and status == 429 else None,
        is_refused=is_refused,
        is_passing=status in (408, 429) or status >= 500,
    )
