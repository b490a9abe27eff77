"""The life of a job: which state follows which event, who holds it, and when it may be tried again. Pure.

::

    state      claim       postpone   break               complete    fail     cancel      expire
    queued     running     -          -                   -           failed*  cancelled   expired
    running    running**   queued     queued or failed    completed   failed   cancelled   expired
    completed, failed, cancelled, expired: none; the row goes when its time is up

    *  where the right to it was withdrawn before it was started
    ** by another holder, once the lease of the one before ran out; failed where it was tried too often

Whoever claims a job holds it under a fence, a number that rises with every claim and every end. An event of a holder
counts only under the fence that it was given, so a holder that was taken for dead changes nothing any more, and a
result is written once (I8). Moments are seconds of the database's clock, the only one that all holders share.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from hotset.core.errors import AdmissionError, HotsetError, UnavailableError


class JobState(StrEnum):
    """Where a job stands."""

    #: Accepted; nobody works on it.
    QUEUED = "queued"
    #: Somebody holds it.
    RUNNING = "running"
    #: It has an answer.
    COMPLETED = "completed"
    #: It has an error, and will get no answer.
    FAILED = "failed"
    #: Its tenant or an operator ended it.
    CANCELLED = "cancelled"
    #: Its time was up before it ended.
    EXPIRED = "expired"


UNENDED = (JobState.QUEUED, JobState.RUNNING)
ENDED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED)


@dataclass(frozen=True, slots=True)
class JobLife:
    """What decides about a job."""

    #: When it is expired, or, once it has ended, forgotten.
    expires_at_s: float
    state: JobState = JobState.QUEUED
    #: Of its present or last holder.
    fence: int = 0
    #: Tries that were begun, apart from those that only found that they had to wait.
    attempts: int = 0
    #: Not to be tried again before.
    not_before_s: float = 0.0
    #: Until when its holder is taken for alive; None where it has none.
    lease_until_s: float | None = None
    ended_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody wants to hold it."""

    lease_s: float
    attempts_max: int
    keep_s: float


@dataclass(frozen=True, slots=True)
class Renew:
    """Its holder is alive."""

    fence: int
    lease_s: float


@dataclass(frozen=True, slots=True)
class Postpone:
    """Its holder found that it has to wait, as for an adapter that is cold; nothing failed."""

    fence: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Break:
    """A try broke off in a way that another may not."""

    fence: int
    attempts_max: int
    after_s: float
    keep_s: float


@dataclass(frozen=True, slots=True)
class End:
    """Its holder has the answer or an error that stays."""

    fence: int
    state: JobState
    keep_s: float


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The right to it was taken back before anybody held it."""

    keep_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its tenant or an operator wants it no more."""

    keep_s: float


@dataclass(frozen=True, slots=True)
class Expire:
    """Somebody looks whether its time is up."""

    keep_s: float


JobEvent = Claim | Renew | Postpone | Break | End | Withdraw | Cancel | Expire


def decide(life: JobLife, event: JobEvent, now_s: float) -> JobLife | None:
    """Return the job's life after an event; None where the event comes too late or too early and changes nothing.

    Args:
        life: As it stands in the database.
        event: What happened.
        now_s: The database's clock.
    """
    if isinstance(event, Renew | Postpone | Break | End):
        return _by_holder(life, event, now_s) if _is_held(life, event.fence) else None
    match event:
        case Claim(lease_s, attempts_max, keep_s):
            if not is_claimable(life, now_s):
                return None
            if life.attempts >= attempts_max:
                return _ended(life, JobState.FAILED, now_s, keep_s)
            held = replace(life, state=JobState.RUNNING, fence=life.fence + 1, attempts=life.attempts + 1)
            return replace(held, lease_until_s=now_s + lease_s)
        case Withdraw(keep_s):
            return _ended(life, JobState.FAILED, now_s, keep_s) if life.state is JobState.QUEUED else None
        case Cancel(keep_s):
            return _ended(life, JobState.CANCELLED, now_s, keep_s) if life.state in UNENDED else None
        case Expire(keep_s):
            is_late = life.state in UNENDED and life.expires_at_s <= now_s
            return _ended(life, JobState.EXPIRED, now_s, keep_s) if is_late else None
        case _:
            assert_never(event)


def is_claimable(life: JobLife, now_s: float) -> bool:
    """Whether somebody may hold the job now: it waits for nothing, or its holder is gone."""
    if life.expires_at_s <= now_s:
        return False
    if life.state is JobState.QUEUED:
        return life.not_before_s <= now_s
    return life.state is JobState.RUNNING and (life.lease_until_s or 0.0) <= now_s


class Verdict(StrEnum):
    """What an error means to a job."""

    #: Nothing failed; there is no room for it yet.
    POSTPONE = "postpone"
    #: Another try may go well.
    BREAK = "break"
    #: No try ever will.
    FAIL = "fail"


def verdict(error: HotsetError) -> Verdict:
    """Return what an error that a try met means to the job: an outage and a refusal for now are waited out."""
    if isinstance(error, AdmissionError | UnavailableError):
        return Verdict.POSTPONE
    return Verdict.BREAK if error.retryable else Verdict.FAIL


def pause_s(attempts: int, *, least_s: float, most_s: float) -> float:
    """Return the pause after so many tries that broke off: it doubles with each, from the least to the most."""
    return min(most_s, least_s * 2.0 ** min(max(0, attempts - 1), 32))


def _by_holder(life: JobLife, event: Renew | Postpone | Break | End, now_s: float) -> JobLife:
    match event:
        case Renew(_, lease_s):
            return replace(life, lease_until_s=now_s + lease_s)
        case Postpone(_, after_s):
            return _queued(life, now_s + after_s, life.attempts - 1)
        case Break(_, attempts_max, after_s, keep_s):
            if life.attempts >= attempts_max:
                return _ended(life, JobState.FAILED, now_s, keep_s)
            return _queued(life, now_s + after_s, life.attempts)
        case End(_, state, keep_s):
            assert state in (JobState.COMPLETED, JobState.FAILED), state
            return _ended(life, state, now_s, keep_s)
        case _:
            assert_never(event)


def _is_held(life: JobLife, fence: int) -> bool:
    return life.state is JobState.RUNNING and life.fence == fence


def _queued(life: JobLife, not_before_s: float, attempts: int) -> JobLife:
    return replace(
        life, state=JobState.QUEUED, not_before_s=not_before_s, attempts=max(0, attempts), lease_until_s=None
    )


def _ended(life: JobLife, state: JobState, now_s: float, keep_s: float) -> JobLife:
    return replace(
        life,
        state=state,
        fence=life.fence + 1,
        lease_until_s=None,
        ended_at_s=now_s,
        expires_at_s=now_s + keep_s,
    )
