"""What one generation request came to: the numbers gathered on its way, and their one entry in log and metrics."""

import msgspec

from hotset.admission.outcomes import Outcome
from hotset.admission.rate_limits import UNBOUND, Meter
from hotset.core.errors import (
    AdmissionError,
    ContextLengthExceededError,
    FirstTokenBudgetExceededError,
    HotsetError,
    InvalidRequestError,
    RequestError,
)
from hotset.core.ids import RequestId
from hotset.core.on_call import RequestEntry
from hotset.core.usage import Usage
from hotset.gateway.authenticate import Caller
from hotset.gateway.budget import NO_BUDGET, Budget
from hotset.gateway.plane import Plane
from hotset.routing.resolve import Resolved

#: The lane of what is answered later.
ASYNC_LANE = "async"


class Account(msgspec.Struct, kw_only=True, eq=False):
    """The numbers of one request; moments in monotonic seconds, None where it did not come so far."""

    request_id: RequestId
    endpoint: str
    began_at_s: float
    began_wall_s: float
    authenticated_at_s: float | None = None
    body_at_s: float | None = None
    accepted_at_s: float | None = None
    first_token_at_s: float | None = None
    caller: Caller | None = None
    bound: Resolved | None = None
    is_stream: bool = False
    budget: Budget = NO_BUDGET
    #: What it takes of its tenant's and its key's rates.
    meter: Meter = UNBOUND
    #: After how long the client was told to come back; None where it was not.
    retry_after_ms: int | None = None
    #: Empty until the agent decided.
    lane: str = ""
    load_s: float = 0.0
    #: Who accepted it; empty until one did, and where one process is all.
    worker: str = ""
    #: Seconds from the whole body to the first token, as the agent expected when the request began to wait.
    expected_s: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: The job that the request was accepted as, or a try of which it is; empty where there is none.
    job: str = ""
    #: Whether it was accepted as a job.
    is_deferred: bool = False

    @property
    def queue_s(self) -> float | None:
        """Wait for dispatch, apart from loading."""
        if self.accepted_at_s is None or self.body_at_s is None:
            return None
        return max(0.0, self.accepted_at_s - self.body_at_s - self.load_s)

    def server_timing(self, now_s: float) -> bytes:
        """Return the ``Server-Timing`` header's value, in milliseconds."""
        accepted_at_s = now_s if self.accepted_at_s is None else self.accepted_at_s
        authenticated_at_s = self.began_at_s if self.authenticated_at_s is None else self.authenticated_at_s
        stages = b"auth;dur=%.3f, queue;dur=%.3f, load;dur=%.3f, engine;dur=%.3f" % (
            (authenticated_at_s - self.began_at_s) * 1e3,
            (self.queue_s or 0.0) * 1e3,
            self.load_s * 1e3,
            (now_s - accepted_at_s) * 1e3,
        )
        return stages if self.expected_s is None else b"%s, expected;dur=%.3f" % (stages, self.expected_s * 1e3)


def outcome_of(error: HotsetError | None, account: Account) -> Outcome:
    """Return how a request ended that met this error, or None: refused only if nothing of an answer was made."""
    if error is None:
        return Outcome.ACCEPTED if account.is_deferred else Outcome.COMPLETED
    if account.accepted_at_s is None:
        return Outcome.REFUSED if isinstance(error, RequestError | AdmissionError) else Outcome.FAILED
    says_no = isinstance(error, ContextLengthExceededError | InvalidRequestError | AdmissionError)
    says_no = says_no and not isinstance(error, FirstTokenBudgetExceededError)  # it ran, only too late
    return Outcome.REFUSED if says_no and account.completion_tokens == 0 else Outcome.FAILED


def settle(plane: Plane, account: Account, outcome: Outcome, code: str | None) -> None:
    """Count the request and write its line. Without an authenticated key it is counted, not logged."""
    metrics = plane.metrics
    metrics.request_ended(outcome.value, account.lane, code)
    if outcome is Outcome.REFUSED and code is not None:
        metrics.request_refused(code)
    caller = account.caller
    if caller is None:
        return
    now_s = plane.clock.monotonic_s()
    account.meter.use(account.prompt_tokens + account.completion_tokens, now_s)
    queue_s, first_token_s = account.queue_s, None
    if account.accepted_at_s is not None:
        metrics.tokens_used(caller.key.tenant, account.prompt_tokens, account.completion_tokens)
        metrics.queued(account.lane, queue_s or 0.0)
    if account.first_token_at_s is not None and account.body_at_s is not None:
        first_token_s = account.first_token_at_s - account.body_at_s
        if account.lane != ASYNC_LANE:  # nobody waits for a job's tokens
            metrics.first_token(caller.key.tenant, first_token_s)
            if outcome is Outcome.COMPLETED and account.completion_tokens > 1:
                rest_s = now_s - account.first_token_at_s
                metrics.per_token(caller.key.tenant, rest_s / (account.completion_tokens - 1))
    bound = account.bound
    adapter = str(bound.route.adapter) if bound is not None and bound.route.adapter is not None else ""
    _count_usage(plane.metrics.usage.of(caller.key.tenant, adapter), account, outcome)
    plane.request_log.append(
        RequestEntry(
            request_id=account.request_id,
            at=account.began_wall_s,
            tenant=caller.key.tenant,
            key=caller.key.key,
            alias=bound.model if bound is not None else "",
            adapter=adapter,
            version=bound.number if bound is not None else 0,
            base=bound.route.base if bound is not None else "",
            endpoint=account.endpoint,
            stream=account.is_stream,
            lane=account.lane,
            prompt_tokens=account.prompt_tokens,
            completion_tokens=account.completion_tokens,
            queue_s=queue_s,
            load_s=account.load_s if account.accepted_at_s is not None else None,
            first_token_s=first_token_s,
            total_s=now_s - account.began_at_s,
            outcome=outcome.value,
            code=code or "",
            budget_ms=account.budget.ms,
            retry_after_ms=account.retry_after_ms,
            job=account.job,
            worker=account.worker,
            expected_s=account.expected_s,
        )
    )


def _count_usage(usage: Usage, account: Account, outcome: Outcome) -> None:
    usage.requests += 1
    usage.refused += outcome is Outcome.REFUSED
    usage.prompt_tokens += account.prompt_tokens
    usage.completion_tokens += account.completion_tokens
