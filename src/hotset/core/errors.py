"""The one error tree. No HTTP here: `gateway/problems.py` and `control/problems.py` map leaves to responses.

::

    HotsetError
    ├─ RequestError       a client's fault
    │   ├─ InvalidNameError            invalid_name
    │   ├─ InvalidRequestError         invalid_request
    │   ├─ UnsupportedParameterError   unsupported_parameter
    │   ├─ ContextLengthExceededError  context_length_exceeded
    │   ├─ RequestTooLargeError        request_too_large
    │   ├─ RequestTimeoutError         request_timeout
    │   ├─ UnauthenticatedError        unauthenticated
    │   ├─ PermissionDeniedError       permission_denied
    │   ├─ RouteNotFoundError          route_not_found
    │   ├─ MethodNotAllowedError       method_not_allowed
    │   ├─ ModelNotFoundError          model_not_found
    │   ├─ JobNotFoundError            job_not_found
    │   ├─ JobsForbiddenError          jobs_forbidden
    │   ├─ JobExpiredError             job_expired (a job's own end)
    │   └─ IdempotencyKeyReusedError   idempotency_key_reused
    ├─ AdmissionError     refused now, may be served later
    │   ├─ SlotsFullError              slots_full
    │   ├─ LoadRateExceededError       load_rate_exceeded
    │   ├─ LoadsFrozenError            loads_frozen
    │   ├─ SlotReclaimedError          slot_reclaimed (after acceptance)
    │   ├─ AdapterColdError            adapter_cold
    │   ├─ FirstTokenBudgetExceededError  first_token_budget_exceeded (after acceptance)
    │   ├─ RequestRateExceededError    request_rate_exceeded
    │   ├─ TokenRateExceededError      token_rate_exceeded
    │   ├─ TooManyRequestsError        too_many_requests
    │   └─ TooManyJobsError            too_many_jobs
    ├─ UnavailableError   an outage
    │   ├─ EngineUnavailableError      engine_unavailable
    │   ├─ JobsUnavailableError        jobs_unavailable
    │   ├─ StaleRouteError             stale_route (a gateway resolves again; told to a client where that fails too)
    │   ├─ ControlUnreachableError     control_unreachable
    │   └─ ShuttingDownError           shutting_down
    ├─ EngineError        the engine failed a request
    │   ├─ EngineFailedError           engine_failed
    │   ├─ EngineTimeoutError          engine_timeout
    │   ├─ LoadFailedError             load_failed
    │   ├─ JobAbandonedError           job_abandoned (a job's own end)
    │   └─ RevokedError                revoked (a stream cut by an operator's act)
    ├─ TrustError         bytes or records that fail their check
    │   ├─ VersionRefusedError         one of registry.refusals.Refusal
    │   ├─ DigestMismatchError         digest_mismatch
    │   ├─ ApprovalInvalidError        approval_invalid
    │   └─ SealBrokenError             seal_broken
    ├─ OperatorError      an operator's command that can't be carried out
    │   ├─ NotFoundError               not_found
    │   ├─ ConflictError               conflict
    │   ├─ IllegalTransitionError      illegal_transition
    │   ├─ ProofFailedError            proof_failed
    │   ├─ StateLockedError            state_locked
    │   └─ ServerUnreachableError      server_unreachable (met by commands only)
    └─ ConfigError                     config_invalid (start-up only)

A class's docstring is its default message. `code` is stable; `retryable` says whether the same
request may succeed later without a change by the caller.
"""

from typing import ClassVar


class HotsetError(Exception):
    """Something went wrong in Hotset."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").split("\n", 1)[0]
        #: The request field or setting at fault, where one is.
        self.param = param
        super().__init__(self.message)


class RequestError(HotsetError):
    """The request can't be served as it stands."""


class InvalidNameError(RequestError):
    """The name is not well-formed."""

    code = "invalid_name"

    def __init__(self, what: str, text: str, rule: str) -> None:
        super().__init__(f"{text[:80]!r} is not a valid {what}: expected {rule}.", param=what)


class InvalidRequestError(RequestError):
    """The request body is not valid."""

    code = "invalid_request"


class UnsupportedParameterError(RequestError):
    """The request holds a parameter that this server does not take."""

    code = "unsupported_parameter"


class ContextLengthExceededError(RequestError):
    """The prompt and the requested tokens do not fit the model's context."""

    code = "context_length_exceeded"


class RequestTooLargeError(RequestError):
    """The request body is larger than this server takes."""

    code = "request_too_large"


class RequestTimeoutError(RequestError):
    """The request body did not arrive in time."""

    code = "request_timeout"
    retryable = True


class UnauthenticatedError(RequestError):
    """The API key is missing, unknown, expired or revoked."""

    code = "unauthenticated"


class PermissionDeniedError(RequestError):
    """The credential does not allow this."""

    code = "permission_denied"


class RouteNotFoundError(RequestError):
    """There is nothing at this path."""

    code = "route_not_found"


class MethodNotAllowedError(RequestError):
    """The path does not take this method."""

    code = "method_not_allowed"


class ModelNotFoundError(RequestError):
    """The model does not exist or you do not have access to it."""

    code = "model_not_found"


class JobNotFoundError(RequestError):
    """The job does not exist or you do not have access to it."""

    code = "job_not_found"


class JobsForbiddenError(RequestError):
    """Asynchronous answers are switched off for this tenant."""

    code = "jobs_forbidden"


class JobExpiredError(RequestError):
    """The job had not ended when its time was up."""

    code = "job_expired"


class IdempotencyKeyReusedError(RequestError):
    """This Idempotency-Key was sent before with another request."""

    code = "idempotency_key_reused"


class AdmissionError(HotsetError):
    """The request was refused for now."""

    retryable = True

    def __init__(self, message: str | None = None, *, retry_after_ms: int = 1000) -> None:
        super().__init__(message)
        #: Milliseconds after which the same request is worth sending again, at least 1.
        self.retry_after_ms = retry_after_ms


class SlotsFullError(AdmissionError):
    """Every adapter slot is held by running requests; try again shortly."""

    code = "slots_full"


class SlotReclaimedError(AdmissionError):
    """The adapter's slot went back to the tenant that it is reserved for, while the answer was running."""

    code = "slot_reclaimed"


class LoadRateExceededError(AdmissionError):
    """Your requests bring in adapters faster than your quota allows."""

    code = "load_rate_exceeded"


class LoadsFrozenError(AdmissionError):
    """The adapter is not ready, and an operator stopped all loads for now."""

    code = "loads_frozen"

    def __init__(self, message: str | None = None, *, retry_after_ms: int = 30_000) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)  # a person ends a freeze: seconds are too soon


class AdapterColdError(AdmissionError):
    """The adapter is not ready, and its first token would come later than your budget allows."""

    code = "adapter_cold"


class FirstTokenBudgetExceededError(AdmissionError):
    """The first token did not come within your budget, though it was expected to."""

    code = "first_token_budget_exceeded"


class RequestRateExceededError(AdmissionError):
    """You send more requests a minute than you may."""

    code = "request_rate_exceeded"


class TokenRateExceededError(AdmissionError):
    """You use more tokens a minute than you may."""

    code = "token_rate_exceeded"


class TooManyRequestsError(AdmissionError):
    """Too many requests are in flight."""

    code = "too_many_requests"


class TooManyJobsError(AdmissionError):
    """You have as many jobs, or as many bytes in them, as you may; delete those that you have read."""

    code = "too_many_jobs"


class UnavailableError(HotsetError):
    """The service can't serve this now."""

    retryable = True
    #: Milliseconds after which the same request is worth sending again: an engine starts in seconds.
    retry_after_ms: ClassVar[int] = 5000


class EngineUnavailableError(UnavailableError):
    """No engine serves this model right now."""

    code = "engine_unavailable"


class JobsUnavailableError(UnavailableError):
    """Jobs can't be kept or read right now."""

    code = "jobs_unavailable"


class StaleRouteError(UnavailableError):
    """The model changed while the request was on its way; try again."""

    code = "stale_route"

    def __init__(self, message: str | None = None, *, epoch: int = 0) -> None:
        super().__init__(message)
        #: Of the routing state in which the route is no longer served.
        self.epoch = epoch


class ControlUnreachableError(UnavailableError):
    """The service has not heard from its control for too long to go on."""

    code = "control_unreachable"


class ShuttingDownError(UnavailableError):
    """The server is shutting down."""

    code = "shutting_down"


class EngineError(HotsetError):
    """The engine failed the request."""

    retryable = True


class EngineFailedError(EngineError):
    """The engine failed while serving the request."""

    code = "engine_failed"


class EngineTimeoutError(EngineError):
    """The engine did not finish within the time limit."""

    code = "engine_timeout"


class LoadFailedError(EngineError):
    """The adapter could not be loaded."""

    code = "load_failed"


class JobAbandonedError(EngineError):
    """The job was tried as often as it may be, and every try broke off."""

    code = "job_abandoned"
    retryable = False


class RevokedError(EngineError):
    """Access to this model was withdrawn while the answer was running."""

    code = "revoked"
    retryable = False


class TrustError(HotsetError):
    """Bytes or records failed their check."""


class VersionRefusedError(TrustError):
    """The adapter can't be admitted as it stands."""

    code = "version_refused"

    def __init__(self, reason: str, message: str, *, subject: str | None = None) -> None:
        super().__init__(message, param=subject)
        #: The stable reason code, one of `registry.refusals.Refusal`.
        self.reason = reason


class DigestMismatchError(TrustError):
    """Stored bytes no longer have the digest they were admitted under."""

    code = "digest_mismatch"


class ApprovalInvalidError(TrustError):
    """No valid approval covers this version."""

    code = "approval_invalid"


class SealBrokenError(TrustError):
    """Stored bytes were not sealed under a key of this installation, or were changed since."""

    code = "seal_broken"


class OperatorError(HotsetError):
    """The command can't be carried out."""


class NotFoundError(OperatorError):
    """There is no such thing."""

    code = "not_found"


class ConflictError(OperatorError):
    """It conflicts with what is already there."""

    code = "conflict"


class IllegalTransitionError(OperatorError):
    """The version's state does not allow this step."""

    code = "illegal_transition"


class ProofFailedError(OperatorError):
    """The version's numbers are not finite and stable on an engine of its own."""

    code = "proof_failed"


class StateLockedError(OperatorError):
    """Another Hotset process holds this state folder."""

    code = "state_locked"
    retryable = True


class ServerUnreachableError(OperatorError):
    """The Hotset server can't be reached."""

    code = "server_unreachable"
    retryable = True


class ConfigError(HotsetError):
    """The configuration is not valid."""

    code = "config_invalid"


def leaf_errors(root: type[HotsetError] = HotsetError) -> list[type[HotsetError]]:
    """Return every class of the tree that has no subclass, in order of definition."""
    subclasses = root.__subclasses__()
    if not subclasses:
        return [root]
    return [leaf for branch in subclasses for leaf in leaf_errors(branch)]
