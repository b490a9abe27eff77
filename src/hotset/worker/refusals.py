"""What the dispatcher refuses a request with, as the error that its caller gets."""

from hotset.core.errors import (
    AdapterColdError,
    AdmissionError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
    LoadRateExceededError,
    LoadsFrozenError,
    ModelNotFoundError,
    SlotsFullError,
    TooManyRequestsError,
)
from hotset.residency.events import Refuse

_REFUSALS: dict[str, type[HotsetError]] = {
    error.code: error
    for error in (
        SlotsFullError,
        LoadRateExceededError,
        LoadsFrozenError,
        AdapterColdError,
        TooManyRequestsError,
        LoadFailedError,
        ModelNotFoundError,
        EngineUnavailableError,
    )
}


def error_of(refusal: Refuse) -> HotsetError:
    """Return the error that a refusal stands for."""
    error = _REFUSALS[refusal.code](refusal.message or None)
    if isinstance(error, AdmissionError) and refusal.retry_after_ms is not None:
        error.retry_after_ms = refusal.retry_after_ms
    return error
