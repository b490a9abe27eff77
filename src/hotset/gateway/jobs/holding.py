"""The jobs that one gateway holds: claim, keep the hold, hand back, end; and the sweep over all. Fenced throughout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from hotset.admission.job_life import (
    Break,
    Claim,
    End,
    Expire,
    JobEvent,
    JobState,
    Postpone,
    Renew,
    Withdraw,
    decide,
    pause_s,
)
from hotset.admission.job_turns import next_job
from hotset.core.errors import HotsetError, JobAbandonedError, JobExpiredError
from hotset.core.ids import JobId, TenantId
from hotset.gateway.jobs.book import JobBook, JobResult
from hotset.gateway.problems import error_object
from hotset.storage.jobs import Jobs, Right
from hotset.storage.rows import JobRow

#: Jobs that one sweep takes up; the rest is for the next.
_SWEEP_MAX = 200


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold on a job; a later one on the same job has another fence."""

    job: JobId
    fence: int


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that we hold, under the fence of its life."""

    row: JobRow
    sealed_body: bytes

    @property
    def hold(self) -> Hold:
        """Our hold on it."""
        return Hold(self.row.job, self.row.life.fence)


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended, and its age then."""

    row: JobRow
    state: JobState
    age_s: float


class Holding:
    """What the runner does to the book. Every change returns what became of the job, None where it was not ours."""

    def __init__(self, book: JobBook) -> None:
        self._book = book
        self._settings = book.settings
        self._write = book.transactions.write
        self._read = book.transactions.read

    async def claim(self, running: Mapping[TenantId, int], epoch: int) -> HeldJob | Ended | None:
        """Take the next job, as `job_turns.next_job` chooses it. One that was tried too often ends instead.

        Args:
            running: Jobs of each tenant that run here.
            epoch: Of our snapshot; what was accepted under a later one is not ours to judge.

        Raises:
            JobsUnavailableError: the database failed.
        """
        settings = self._settings

        def act(jobs: Jobs) -> HeldJob | Ended | None:
            now_s = jobs.now_s()
            job = next_job(jobs.oldest_claimable(now_s, epoch), running, settings.running_max)
            row = None if job is None else jobs.get(job)
            if row is None:
                return None
            event = Claim(settings.lease_s, settings.attempts_max, settings.keep_s)
            return self._claimed(jobs, row, event, now_s)

        def is_any(jobs: Jobs) -> bool:
            return next_job(jobs.oldest_claimable(jobs.now_s(), epoch), running, settings.running_max) is not None

        return await self._write(act) if await self._read(is_any) else None

    async def renew(self, holds: Sequence[Hold]) -> list[Hold]:
        """Renew these holds; return those that are ours no more.

        Raises:
            JobsUnavailableError: the database failed.
        """

        def act(jobs: Jobs) -> list[Hold]:
            now_s = jobs.now_s()
            return [hold for hold in holds if not self._renewed(jobs, hold, now_s)]

        return await self._write(act)

    async def lost(self, holds: Sequence[Hold]) -> list[Hold]:
        """Return which of these holds are ours no more.

        Raises:
            JobsUnavailableError: the database failed.
        """

        def look(jobs: Jobs) -> list[Hold]:
            rows = [(hold, jobs.get(hold.job)) for hold in holds]
            return [hold for hold, row in rows if row is None or row.life.fence != hold.fence]

        return await self._read(look)

    async def complete(self, held: HeldJob, route: str, answer: bytes) -> Ended | None:
        """Write the answer, once.

        Raises:
            JobsUnavailableError: the database failed.
        """
        event = End(held.row.life.fence, JobState.COMPLETED, self._settings.keep_s)
        return await self._write(lambda jobs: self._enter(jobs, held.row.job, event, None, route, answer))

    async def fail(self, held: HeldJob, route: str, error: HotsetError) -> Ended | None:
        """Write the error that the job ends with.

        Raises:
            JobsUnavailableError: the database failed.
        """
        event = End(held.row.life.fence, JobState.FAILED, self._settings.keep_s)
        return await self._write(lambda jobs: self._enter(jobs, held.row.job, event, error, route))

    async def hand_back(self, held: HeldJob, *, after_s: float) -> None:
        """Let the job wait, as nothing failed and it has to.

        Raises:
            JobsUnavailableError: the database failed.
        """
        event = Postpone(held.row.life.fence, after_s)
        await self._write(lambda jobs: self._enter(jobs, held.row.job, event))

    async def break_off(self, held: HeldJob, route: str, error: HotsetError) -> Ended | None:
        """Let the job be tried again after a pause, or end it with the error where it was tried often enough.

        Raises:
            JobsUnavailableError: the database failed.
        """
        settings = self._settings
        life = held.row.life
        pause = pause_s(life.attempts, least_s=settings.pause_min_s, most_s=settings.pause_max_s)
        event = Break(life.fence, settings.attempts_max, pause, settings.keep_s)
        return await self._write(lambda jobs: self._enter(jobs, held.row.job, event, error, route))

    async def sweep(self) -> list[Ended]:
        """Expire what is late, and forget what ended long enough ago; return what was expired.

        Raises:
            JobsUnavailableError: the database failed.
        """

        def act(jobs: Jobs) -> list[Ended]:
            now_s = jobs.now_s()
            jobs.forget(now_s)
            event = Expire(self._settings.keep_s)
            entered = [self._enter(jobs, row.job, event, JobExpiredError()) for row in jobs.late(now_s, _SWEEP_MAX)]
            return [ended for ended in entered if ended is not None]

        return await self._write(act) if await self._read(_is_any_due) else []

    async def withdraw(self, reason_of: Callable[[Right], HotsetError | None], epoch: int) -> list[Ended]:
        """End the jobs that wait by a right that is gone (I11).

        Args:
            reason_of: Returns why a right does not hold, None where it does.
            epoch: At which it says so.

        Raises:
            JobsUnavailableError: the database failed.
        """
        rights = await self._read(lambda jobs: jobs.rights(epoch))
        gone = [(right, error) for right in rights if (error := reason_of(right)) is not None]

        def act(jobs: Jobs) -> list[Ended]:
            event = Withdraw(self._settings.keep_s)
            entered = [
                self._enter(jobs, row.job, event, error)
                for right, error in gone
                for row in jobs.waiting_under(right, epoch)
            ]
            return [ended for ended in entered if ended is not None]

        return await self._write(act) if gone else []

    async def counts(self) -> dict[str, int]:
        """Return how many jobs stand in each state.

        Raises:
            JobsUnavailableError: the database failed.
        """
        return await self._read(lambda jobs: {state.value: count for state, count in jobs.counts().items()})

    def body_of(self, held: HeldJob) -> bytes:
        """Return what was asked.

        Raises:
            SealBrokenError: it does not open.
        """
        return self._book.sealer.open(held.sealed_body, job=held.row.job, tenant=held.row.tenant, kind="body")

    def _claimed(self, jobs: Jobs, row: JobRow, event: Claim, now_s: float) -> HeldJob | Ended | None:
        life = decide(row.life, event, now_s)
        if life is None:
            return None
        if life.state is JobState.FAILED:
            return self._enter(jobs, row.job, event, JobAbandonedError())
        jobs.enter(row.job, life)
        return HeldJob(replace(row, life=life), jobs.sealed(row.job)[0])

    def _renewed(self, jobs: Jobs, hold: Hold, now_s: float) -> bool:
        row = jobs.get(hold.job)
        life = None if row is None else decide(row.life, Renew(hold.fence, self._settings.lease_s), now_s)
        if life is not None:
            jobs.enter(hold.job, life)
        return life is not None

    def _enter(
        self,
        jobs: Jobs,
        job: JobId,
        event: JobEvent,
        error: HotsetError | None = None,
        route: str = "",
        answer: bytes = b"null",
    ) -> Ended | None:
        """Decide on what this transaction reads, and write it, with what the job came to where it ended by it."""
        row, now_s = jobs.get(job), jobs.now_s()
        life = None if row is None else decide(row.life, event, now_s)
        if row is None or life is None:
            return None
        if life.ended_at_s is None:
            jobs.enter(job, life)
            return None
        told = None if error is None else error_object(error)
        result = msgspec.json.encode(JobResult(route=route, answer=msgspec.Raw(answer), error=told))
        sealed = self._book.sealer.seal(result, job=job, tenant=row.tenant, kind="result")
        jobs.enter(job, life, code=None if error is None else error.code, sealed_result=sealed)
        return Ended(row, life.state, now_s - row.created_at_s)


def _is_any_due(jobs: Jobs) -> bool:
    return jobs.is_any_due(jobs.now_s())
