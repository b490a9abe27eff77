"""Errors of the tree as they cross a link: by their code, and back to the same leaf."""

from hotset.core.agent_errors import AGENT_ERRORS, agent_error
from hotset.core.errors import AdmissionError, EngineFailedError, HotsetError, StaleRouteError
from hotset.links.worker_messages import Refused


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
    kind = AGENT_ERRORS.get(refused.code, EngineFailedError)
    error = agent_error(kind, refused.message, refused.retry_after_ms)
    error.param = refused.param
    if isinstance(error, StaleRouteError) and refused.epoch is not None:
        error.epoch = refused.epoch
    return error
