"""The one table from error to status, and its two renderings."""

import json

import pytest

from hotset.core import errors
from hotset.core.errors import HotsetError, leaf_errors
from hotset.core.ids import RequestId
from hotset.gateway.budget import NO_BUDGET, Budget
from hotset.gateway.problems import STATUSES, answer_of, engine_error, event_of, problem_of

ID = RequestId("0123abcd")
TENANT_BRANCHES = (errors.RequestError, errors.AdmissionError, errors.UnavailableError, errors.EngineError)


def made(leaf: type[HotsetError]) -> HotsetError:
    return leaf("model", "text", "rule") if leaf is errors.InvalidNameError else leaf()  # type: ignore[call-arg]


TENANT_LEAVES = [leaf for branch in TENANT_BRANCHES for leaf in leaf_errors(branch)]


@pytest.mark.parametrize("leaf", TENANT_LEAVES)
def test_every_leaf_a_tenant_can_meet_has_a_status_and_both_renderings(leaf: type[HotsetError]) -> None:
    error = made(leaf)
    problem = problem_of(error, ID)
    assert problem.status == STATUSES[leaf]
    status, headers, body = answer_of(error, problem)
    answer = json.loads(body)
    assert answer["status"] == status == STATUSES[leaf]
    assert answer["type"] == f"urn:hotset:error:{leaf.code}"
    assert answer["detail"] == answer["error"]["message"]
    assert answer["instance"] == "urn:hotset:request:0123abcd"
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert answer["error"]["code"] == leaf.code
    event = event_of(problem)
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:])["error"]["code"] == leaf.code
    too_long = (errors.AdapterColdError, errors.FirstTokenBudgetExceededError, errors.LoadsFrozenError)
    may_retry = leaf.retryable and leaf not in too_long
    assert dict(headers)[b"x-should-retry"] == (b"true" if may_retry else b"false")


def test_the_table_holds_no_error_that_only_operators_meet() -> None:
    assert set(STATUSES) == set(TENANT_LEAVES)


def test_a_refusal_for_now_says_when_to_come_back() -> None:
    error = errors.SlotsFullError(retry_after_ms=1)
    status, headers, body = answer_of(error, problem_of(error, ID))
    assert (status, dict(headers)[b"retry-after"], dict(headers)[b"retry-after-ms"]) == (429, b"1", b"1")
    assert json.loads(body)["retry_after_ms"] == 1
    assert json.loads(event_of(problem_of(error, ID))[6:])["error"]["retry_after_ms"] == 1


REFUSALS_AND_RETRIES = [
    (errors.AdapterColdError(retry_after_ms=1), NO_BUDGET, b"1", b"false"),
    (errors.AdapterColdError(retry_after_ms=2500), Budget(600_000), b"3", b"false"),
    (errors.SlotsFullError(retry_after_ms=1000), NO_BUDGET, b"1", b"true"),
    (errors.SlotsFullError(retry_after_ms=1001), NO_BUDGET, b"2", b"true"),
    (errors.SlotsFullError(retry_after_ms=5000), NO_BUDGET, b"5", b"true"),
    (errors.SlotsFullError(retry_after_ms=5001), NO_BUDGET, b"6", b"false"),
    (errors.LoadRateExceededError(retry_after_ms=60_000), NO_BUDGET, b"60", b"false"),
    (errors.TooManyRequestsError(retry_after_ms=3_600_000), NO_BUDGET, b"3600", b"false"),
    (errors.SlotsFullError(retry_after_ms=1500), Budget(1500), b"2", b"true"),
    (errors.SlotsFullError(retry_after_ms=1501), Budget(1500), b"2", b"false"),
    (errors.LoadRateExceededError(retry_after_ms=5001), Budget(600_000), b"6", b"false"),
    (errors.ShuttingDownError(), Budget(1), b"5", b"true"),
]


@pytest.mark.parametrize(("error", "budget", "seconds", "may_retry"), REFUSALS_AND_RETRIES)
def test_a_library_retries_unseen_only_where_its_caller_would_wait_so_long(
    error: HotsetError, budget: Budget, seconds: bytes, may_retry: bytes
) -> None:
    _, fields, body = answer_of(error, problem_of(error, ID), budget)
    headers = dict(fields)
    assert (headers[b"retry-after"], headers[b"x-should-retry"]) == (seconds, may_retry)
    assert json.loads(body)["retry_after_ms"] == int(headers[b"retry-after-ms"])


def test_an_error_names_the_preference_that_counted_and_no_other() -> None:
    error = errors.AdapterColdError()
    applied = dict(answer_of(error, problem_of(error, ID), Budget(2000, b"wait=2"))[1])
    assert applied[b"preference-applied"] == b"wait=2"
    assert b"preference-applied" not in dict(answer_of(error, problem_of(error, ID), Budget(2000))[1])


def test_a_401_is_a_challenge_and_a_413_ends_the_connection() -> None:
    error: HotsetError = errors.UnauthenticatedError()
    assert dict(answer_of(error, problem_of(error, ID))[1])[b"www-authenticate"].startswith(b"Bearer")
    error = errors.RequestTooLargeError()
    assert dict(answer_of(error, problem_of(error, ID))[1])[b"connection"] == b"close"


@pytest.mark.parametrize("error", [ValueError("secret"), errors.ConfigError("secret"), errors.NotFoundError("secret")])
def test_what_is_not_for_tenants_is_a_500_without_detail(error: Exception) -> None:
    problem = problem_of(error, ID)
    assert (problem.status, problem.error.code) == (500, "internal")
    assert b"secret" not in answer_of(error, problem)[2]
    assert b"secret" not in event_of(problem)


def test_an_outage_speaks_in_its_own_words_only() -> None:
    for error in (errors.LoadFailedError("/srv/x"), errors.EngineFailedError("/srv/x")):
        assert b"/srv" not in answer_of(error, problem_of(error, ID))[2]


ENGINE_SAYS = [
    ("context_length_exceeded", errors.ContextLengthExceededError, "9000 tokens"),
    ("invalid_request", errors.InvalidRequestError, "9000 tokens"),
    ("slots_full", errors.SlotsFullError, errors.SlotsFullError().message),
    ("revoked", errors.RevokedError, None),
    ("engine_timeout", errors.EngineTimeoutError, None),
    ("unauthenticated", errors.EngineFailedError, None),
    ("model_not_found", errors.EngineFailedError, None),
    ("no such code", errors.EngineFailedError, None),
    ("", errors.EngineFailedError, None),
]


@pytest.mark.parametrize(("code", "leaf", "message"), ENGINE_SAYS)
def test_an_engine_may_name_only_errors_of_its_own(code: str, leaf: type[HotsetError], message: str | None) -> None:
    error = engine_error(code, "9000 tokens", None)
    assert type(error) is leaf
    if message is not None:
        assert problem_of(error, ID).detail == message


def test_an_engine_name_never_reaches_a_tenant() -> None:
    error = engine_error("invalid_request", "hs-0123456789abcdef0123456789abcdef can't " + "x" * 900, "prompt")
    problem = problem_of(error, ID)
    assert problem.detail.startswith("the model can't")
    assert len(problem.detail) < 501
    assert problem.error.param == "prompt"
