"""Where engines that serve HTTP differ: what they call a version, where they load it, and how they say no.

Source: the calls of vLLM 0.33.0 and SGLang 0.5.23, the former seen on vLLM 0.32.0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hotset.core.errors import ContextLengthExceededError, EngineFailedError, InvalidRequestError, LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import Failed

_WORDS_CHARS_MAX = 500
_NOT_FOUND, _LEAST_FAULT_OF_THE_ENGINE = 404, 500


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way."""

    load_path: str
    #: Served base model's name and version → the ``model`` of a request.
    model_of: Callable[[str, EngineName | None], str]


def _vllm_model(base: str, name: EngineName | None) -> str:
    return base if name is None else name


def _sglang_model(base: str, name: EngineName | None) -> str:
    return base if name is None else f"{base}:{name}"


VLLM = Dialect("/v1/load_lora_adapter", _vllm_model)
SGLANG = Dialect("/load_lora_adapter", _sglang_model)


class _Fault(msgspec.Struct):
    message: str = ""


class _Refusal(msgspec.Struct):
    """What either says where it does not do what it was asked."""

    error: _Fault | str | None = None
    error_message: str | None = None
    message: str | None = None


def words_of(body: bytes) -> str:
    """Return what an engine says in an answer other than the one asked for: for logs and operators, not for tenants."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        return body[:_WORDS_CHARS_MAX].decode(errors="replace")
    fault = refusal.error.message if isinstance(refusal.error, _Fault) else refusal.error
    return (fault or refusal.error_message or refusal.message or "")[:_WORDS_CHARS_MAX]


def failure_of(request_id: RequestId, status: int, body: bytes) -> Failed:
    """Return how a request ends that an engine did not take: by its status and, of a 400, by its words.

    SGLang says 400 for an adapter that it does not have, vLLM 404.
    """
    words = words_of(body)
    if status >= _LEAST_FAULT_OF_THE_ENGINE:
        return Failed(request_id, EngineFailedError.code, EngineFailedError().message)
    if status == _NOT_FOUND or "never been loaded" in words:
        return Failed(request_id, LoadFailedError.code, "the version is not loaded")
    if "context length" in words:
        return Failed(request_id, ContextLengthExceededError.code, ContextLengthExceededError().message)
    return Failed(request_id, InvalidRequestError.code, "The engine does not take this request.")
