"""The errors that an agent may refuse work with, by code: one table for its own rooms and for what crosses a link."""

from collections.abc import Mapping

from hotset.core.errors import (
    AdmissionError,
    ContextLengthExceededError,
    EngineError,
    HotsetError,
    InvalidRequestError,
    ModelNotFoundError,
    RequestTooLargeError,
    UnavailableError,
    leaf_errors,
)

#: The leaves of `core.ports.Agent`: each takes a message alone.
AGENT_ERRORS: Mapping[str, type[HotsetError]] = {
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


def agent_error(kind: type[HotsetError], message: str, retry_after_ms: int | None) -> HotsetError:
    """Return an error of the table.

    Args:
        kind: Which leaf.
        message: Empty for the leaf's own.
        retry_after_ms: When to come back, where that is known; only of admission's leaves.
    """
    error = kind(message)
    if isinstance(error, AdmissionError) and retry_after_ms is not None:
        error.retry_after_ms = retry_after_ms
    return error
