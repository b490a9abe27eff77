"""Errors as tenants see them: the one table from leaf to status, and two renderings of it.

Before the first byte: a body with RFC 9457 members and, beside them, the ``error`` member of the OpenAI API.
After it: one server-sent event with ``error``. `control/problems.py` holds the leaves that only operators meet.

Source: RFC 9457 section 3; the error object of the OpenAI API reference.
"""

import re
from collections.abc import Mapping

import msgspec

from hotset.core import errors
from hotset.core.errors import AdmissionError, HotsetError, UnavailableError
from hotset.core.ids import RequestId
from hotset.gateway.budget import NO_BUDGET, Budget

#: Leaf → HTTP status, for every error that a tenant can meet.
STATUSES: Mapping[type[HotsetError], int] = {
    errors.InvalidNameError: 400,
    errors.InvalidRequestError: 400,
    errors.UnsupportedParameterError: 400,
    errors.ContextLengthExceededError: 400,
    errors.UnauthenticatedError: 401,
    errors.PermissionDeniedError: 403,
    errors.JobsForbiddenError: 403,
    errors.RevokedError: 403,
    errors.RouteNotFoundError: 404,
    errors.ModelNotFoundError: 404,
    errors.JobNotFoundError: 404,
    errors.MethodNotAllowedError: 405,
    errors.RequestTimeoutError: 408,
    errors.IdempotencyKeyReusedError: 409,
    errors.JobExpiredError: 410,
    errors.RequestTooLargeError: 413,
    errors.SlotsFullError: 429,
    errors.SlotReclaimedError: 429,
    errors.LoadRateExceededError: 429,
    errors.LoadsFrozenError: 429,
    errors.AdapterColdError: 429,
    errors.FirstTokenBudgetExceededError: 429,
    errors.RequestRateExceededError: 429,
    errors.TokenRateExceededError: 429,
    errors.TooManyRequestsError: 429,
    errors.TooManyJobsError: 429,
    errors.EngineFailedError: 502,
    errors.JobAbandonedError: 502,
    errors.LoadFailedError: 503,
    errors.EngineUnavailableError: 503,
    errors.JobsUnavailableError: 503,
    errors.StaleRouteError: 503,
    errors.ControlUnreachableError: 503,
    errors.ShuttingDownError: 503,
    errors.EngineTimeoutError: 504,
}

_TITLES = {
    400: "Bad request",
    401: "Unauthenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    413: "Request too large",
    429: "Too many requests",
    500: "Internal error",
    502: "Engine failed",
    503: "Unavailable",
    504: "Engine timeout",
}

#: The rest of the body may still be on its way; nobody will read it.
_ENDS_CONNECTION = frozenset({408, 413})

#: Leaves whose own words an engine may pass on to the tenant: they speak of the tenant's own request.
_ENGINE_SPEAKS = (
    errors.InvalidRequestError,
    errors.UnsupportedParameterError,
    errors.ContextLengthExceededError,
)
#: Leaves that an engine may name at all; anything else it says is `EngineFailedError`.
_FROM_ENGINE: dict[str, type[HotsetError]] = {
    leaf.code: leaf
    for leaf in (
        *_ENGINE_SPEAKS,
        errors.TooManyRequestsError,
        errors.SlotsFullError,
        errors.SlotReclaimedError,
        errors.LoadRateExceededError,
        errors.LoadsFrozenError,
        errors.AdapterColdError,
        errors.EngineUnavailableError,
        errors.EngineTimeoutError,
        errors.LoadFailedError,
        errors.RevokedError,
        errors.ShuttingDownError,
    )
}
#: A stock OpenAI client sleeps through the time it is told before it tries again, and its caller sees nothing of that.
#: Up to this it may: no longer than an accepted stream is silent by default. Past it, its caller is to know at once.
_UNSEEN_WAIT_MS_MAX = 5000
#: A caller that did not want to wait so long is not to wait just that unseen.
_MISSED_BUDGET = (errors.AdapterColdError, errors.FirstTokenBudgetExceededError)
_ENGINE_NAME = re.compile(r"hs-[0-9a-f]{8,}")
_ENGINE_MESSAGE_CHARS_MAX = 500


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    """The ``error`` member of the OpenAI API."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One error, ready to be rendered before or after the first byte."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: ErrorObject
    retry_after_ms: int | None = None


def problem_of(error: BaseException, request_id: RequestId) -> Problem:
    """Return what a client is told of an error; of one outside the tree, nothing but that it happened.

    An outage is told in the leaf's own words, never in those of whoever met it: they may name paths and engines.

    Args:
        error: The leaf, or any other exception, which becomes a 500 without detail.
        request_id: By which the operator finds the rest in the logs.
    """
    status, code, message, param = 500, "internal", "The server failed to serve the request.", None
    if isinstance(error, HotsetError) and type(error) in STATUSES:
        status, code, param = STATUSES[type(error)], error.code, error.param
        message = _ENGINE_NAME.sub("the model", error.message) if status < 500 else type(error)().message
    return Problem(
        type=f"urn:hotset:error:{code}",
        title=_TITLES[status],
        status=status,
        detail=message,
        instance=f"urn:hotset:request:{request_id}",
        error=ErrorObject(message=message, type=_openai_type(status), param=param, code=code),
        retry_after_ms=retry_after_ms_of(error),
    )


def error_object(error: BaseException) -> ErrorObject:
    """Return what a client is told of an error that a job ended with."""
    return problem_of(error, RequestId("")).error


def answer_of(
    error: BaseException, problem: Problem, budget: Budget = NO_BUDGET
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Render for an answer that has not begun: status, headers, body.

    ``x-should-retry`` tells stock OpenAI clients whether to try again by themselves, in place of their guess by status.

    Args:
        error: What is told.
        problem: What `problem_of` made of it.
        budget: The request's first-token budget.
    """
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", problem.instance.rpartition(":")[2].encode()),
        (b"x-should-retry", b"true" if _may_retry_unseen(error, budget) else b"false"),
    ]
    if problem.retry_after_ms is not None:
        seconds = -(-problem.retry_after_ms // 1000)
        headers.append((b"retry-after", str(seconds).encode()))
        headers.append((b"retry-after-ms", str(problem.retry_after_ms).encode()))
    if budget.applied:
        headers.append((b"preference-applied", budget.applied))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hotset"'))
    if problem.status in _ENDS_CONNECTION:
        headers.append((b"connection", b"close"))
    return problem.status, headers, msgspec.json.encode(problem)


def retry_after_ms_of(error: BaseException | None) -> int | None:
    """Return the milliseconds after which a client is told to come back, or None where it is told none."""
    return error.retry_after_ms if isinstance(error, AdmissionError | UnavailableError) else None


def event_of(problem: Problem) -> bytes:
    """Render as one server-sent event, for an answer that has begun."""
    error = msgspec.structs.asdict(problem.error)
    if problem.retry_after_ms is not None:
        error["retry_after_ms"] = problem.retry_after_ms
    return b"data: " + msgspec.json.encode({"error": error}) + b"\n\n"


def engine_error(code: str, message: str, param: str | None) -> HotsetError:
    """Return the error of the tree that an engine's `Failed` stands for.

    An engine's own words reach a tenant only where they speak of the tenant's request, never for an outage.
    """
    leaf = _FROM_ENGINE.get(code, errors.EngineFailedError)
    if leaf in _ENGINE_SPEAKS:
        return leaf(message[:_ENGINE_MESSAGE_CHARS_MAX], param=param)
    return leaf() if issubclass(leaf, AdmissionError) else leaf(f"{code}: {message}")


def _may_retry_unseen(error: BaseException, budget: Budget) -> bool:
    """Whether a client's library may wait and try again by itself.

    Never for a missed budget. Nor after any other refusal whose wait is
    longer than the caller's budget, or than callers without one are left in the dark.
    """
    if not isinstance(error, HotsetError) or not error.retryable or isinstance(error, _MISSED_BUDGET):
        return False
    wait_ms_max = _UNSEEN_WAIT_MS_MAX if budget.ms is None else min(budget.ms, _UNSEEN_WAIT_MS_MAX)
    return not isinstance(error, AdmissionError) or error.retry_after_ms <= wait_ms_max


def _openai_type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
