"""Errors of the tree as they cross a link: by their code, and back to the same leaf."""

from hotset.core.errors import (
    AdmissionError,
    ContextLengthExceededError,
    EngineError,
    EngineFailedError,
    HotsetError,
    InvalidRequestError,
    ModelNotFoundError,
    RequestTooLargeError,
    StaleRouteError,
    UnavailableError,
    leaf_errors,
)
from hotset.links.worker_messages import Refused

#: The leaves that an agent may refuse work with: each takes a message alone.
_LEAVES: dict[str, type[HotsetError]] = {
    leaf.code: leaf
    for leaf in (
        *leaf_errors(AdmissionError),
        *leaf_errors(UnavailableError),
        *leaf_errors(EngineError),
        ContextLengthExceededError,
        InvalidRequestError,
        ModelNotFoundError,
        RequestTooLargeError,
    )
}


def refusal_of(stream: int, error: HotsetError) -> Refused:
    """Return an error as it crosses."""
    return Refused(
        stream,
        error.code,
        error.message,
        error.param,
        error.retry_after_ms if isinstance(error, AdmissionError) else None,
        error.epoch if isinstance(error, StaleRouteError) else None,
    )


def error_of(refused: Refused) -> HotsetError:
    """Return the error that crossed; one that no agent should refuse with is the agent's failure."""
    error = _LEAVES.get(refused.code, EngineFailedError)(refused.message)
    error.param = refused.param
    if isinstance(error, AdmissionError) and refused.retry_after_ms is not None:
        error.retry_after_ms = refused.retry_after_ms
    if isinstance(error, StaleRouteError) and refused.epoch is not None:
        error.epoch = refused.epoch
    return error
