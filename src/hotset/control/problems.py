"""The operator plane's one table from errors to responses, and the one body they all have (RFC 9457)."""

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from hotset.core.errors import (
    AdmissionError,
    ApprovalInvalidError,
    ConfigError,
    ConflictError,
    ContextLengthExceededError,
    DigestMismatchError,
    EngineError,
    HotsetError,
    IdempotencyKeyReusedError,
    IllegalTransitionError,
    InvalidNameError,
    InvalidRequestError,
    JobExpiredError,
    JobNotFoundError,
    JobsForbiddenError,
    MethodNotAllowedError,
    ModelNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    ProofFailedError,
    RequestTimeoutError,
    RequestTooLargeError,
    RouteNotFoundError,
    SealBrokenError,
    ServerUnreachableError,
    StateLockedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedParameterError,
    VersionRefusedError,
)

PROBLEM_TYPE = "application/problem+json"

#: Leaf, or branch where all its leaves are alike, to status.
STATUS_OF: dict[type[HotsetError], int] = {
    InvalidNameError: 400,
    InvalidRequestError: 400,
    UnsupportedParameterError: 400,
    ContextLengthExceededError: 400,
    UnauthenticatedError: 401,
    PermissionDeniedError: 403,
    JobsForbiddenError: 403,
    RouteNotFoundError: 404,
    ModelNotFoundError: 404,
    JobNotFoundError: 404,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    RequestTimeoutError: 408,
    ConflictError: 409,
    IdempotencyKeyReusedError: 409,
    IllegalTransitionError: 409,
    ApprovalInvalidError: 409,
    StateLockedError: 409,
    JobExpiredError: 410,
    RequestTooLargeError: 413,
    VersionRefusedError: 422,
    DigestMismatchError: 422,
    ProofFailedError: 422,
    SealBrokenError: 500,
    AdmissionError: 429,
    ConfigError: 500,
    ServerUnreachableError: 502,
    EngineError: 502,
    UnavailableError: 503,
}


def status_of(error: HotsetError) -> int:
    """Return the status of an error: that of its class, or of the nearest class above; 500 where there is none."""
    return next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), 500)


def problem_of(error: HotsetError) -> dict[str, object]:
    """Return the body of an error."""
    status = status_of(error)
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
    }
    if error.param is not None:
        body["param"] = error.param
    if isinstance(error, VersionRefusedError):
        body["reason"] = error.reason
    return body


def problem_response(error: HotsetError) -> Response:
    """Return the whole response of an error."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return Response(msgspec.json.encode(problem_of(error)), status, headers, media_type=PROBLEM_TYPE)
