"""The life of a job: who may do what to it when, and what becomes of it."""

from dataclasses import replace

import pytest

from hotset.admission.job_life import (
    ENDED,
    UNENDED,
    Break,
    Cancel,
    Claim,
    End,
    Expire,
    JobEvent,
    JobLife,
    JobState,
    Postpone,
    Renew,
    Verdict,
    Withdraw,
    decide,
    is_claimable,
    pause_s,
    verdict,
)
from hotset.core.errors import (
    AdapterColdError,
    EngineFailedError,
    EngineUnavailableError,
    HotsetError,
    InvalidRequestError,
    RevokedError,
    SealBrokenError,
    UnauthenticatedError,
)

NEW = JobLife(expires_at_s=100.0)
CLAIM = Claim(lease_s=5.0, attempts_max=3, keep_s=50.0)
HELD = JobLife(expires_at_s=100.0, state=JobState.RUNNING, fence=1, attempts=1, lease_until_s=15.0)


def test_a_claim_gives_a_lease_a_fence_and_counts_as_a_try() -> None:
    assert decide(NEW, CLAIM, 10.0) == HELD


@pytest.mark.parametrize(
    "life",
    [
        replace(NEW, not_before_s=10.5),
        replace(NEW, expires_at_s=10.0),
        HELD,
        *(replace(NEW, state=state, ended_at_s=1.0) for state in ENDED),
    ],
)
def test_what_waits_is_held_or_has_ended_is_not_claimed(life: JobLife) -> None:
    assert not is_claimable(life, 10.0)
    assert decide(life, CLAIM, 10.0) is None


def test_a_lease_that_ran_out_lets_another_claim_and_the_first_is_heard_no_more() -> None:
    second = decide(HELD, CLAIM, 15.0)
    assert second is not None
    assert (second.fence, second.attempts, second.lease_until_s) == (2, 2, 20.0)
    late: list[JobEvent] = [
        Renew(1, 5.0),
        Postpone(1, 1.0),
        Break(1, 3, 1.0, 50.0),
        End(1, JobState.COMPLETED, 50.0),
        End(1, JobState.FAILED, 50.0),
    ]
    assert [decide(second, event, 16.0) for event in late] == [None] * len(late)


def test_a_job_that_was_tried_as_often_as_it_may_be_ends_when_it_is_claimed_again() -> None:
    tried = replace(HELD, attempts=3)
    ended = decide(tried, CLAIM, 20.0)
    assert ended is not None
    assert (ended.state, ended.ended_at_s, ended.expires_at_s, ended.lease_until_s) == (
        JobState.FAILED,
        20.0,
        70.0,
        None,
    )


def test_waiting_is_no_try_and_breaking_off_is_one() -> None:
    waits = decide(HELD, Postpone(1, 4.0), 12.0)
    assert waits == JobLife(expires_at_s=100.0, fence=1, attempts=0, not_before_s=16.0)
    broken = decide(HELD, Break(1, 3, 4.0, 50.0), 12.0)
    assert broken == JobLife(expires_at_s=100.0, fence=1, attempts=1, not_before_s=16.0)
    last = decide(replace(HELD, attempts=3), Break(1, 3, 4.0, 50.0), 12.0)
    assert last is not None
    assert last.state is JobState.FAILED


def test_a_holder_renews_and_ends() -> None:
    assert decide(HELD, Renew(1, 9.0), 12.0) == replace(HELD, lease_until_s=21.0)
    done = decide(HELD, End(1, JobState.COMPLETED, 50.0), 12.0)
    assert done is not None
    assert (done.state, done.fence, done.expires_at_s) == (JobState.COMPLETED, 2, 62.0)
    assert decide(done, End(2, JobState.FAILED, 50.0), 13.0) is None, "a result is written once"


@pytest.mark.parametrize("state", UNENDED)
def test_a_cancelled_job_is_taken_from_its_holder(state: JobState) -> None:
    life = HELD if state is JobState.RUNNING else NEW
    cancelled = decide(life, Cancel(50.0), 12.0)
    assert cancelled is not None
    assert cancelled.state is JobState.CANCELLED
    assert cancelled.fence > life.fence
    assert decide(cancelled, Cancel(50.0), 13.0) is None


def test_only_what_waits_is_withdrawn() -> None:
    withdrawn = decide(NEW, Withdraw(50.0), 12.0)
    assert withdrawn is not None
    assert withdrawn.state is JobState.FAILED
    assert decide(HELD, Withdraw(50.0), 12.0) is None


@pytest.mark.parametrize(("now_s", "state"), [(99.9, None), (100.0, JobState.EXPIRED)])
def test_a_job_expires_once_its_time_is_up(now_s: float, state: JobState | None) -> None:
    for life in (NEW, HELD):
        expired = decide(life, Expire(50.0), now_s)
        assert (expired and expired.state) == state
    assert decide(replace(NEW, state=JobState.FAILED, ended_at_s=1.0), Expire(50.0), now_s) is None


def test_a_holder_can_not_end_a_job_in_just_any_state() -> None:
    with pytest.raises(AssertionError):
        decide(HELD, End(1, JobState.CANCELLED, 50.0), 12.0)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (AdapterColdError(), Verdict.POSTPONE),
        (EngineUnavailableError(), Verdict.POSTPONE),
        (EngineFailedError(), Verdict.BREAK),
        (InvalidRequestError(), Verdict.FAIL),
        (UnauthenticatedError(), Verdict.FAIL),
        (RevokedError(), Verdict.FAIL),
        (SealBrokenError(), Verdict.FAIL),
    ],
)
def test_what_an_error_means_to_a_job(error: HotsetError, found: Verdict) -> None:
    assert verdict(error) is found


def test_pauses_double_up_to_the_longest() -> None:
    assert [pause_s(n, least_s=1.0, most_s=5.0) for n in (0, 1, 2, 3, 4, 5000)] == [1.0, 1.0, 2.0, 4.0, 5.0, 5.0]
