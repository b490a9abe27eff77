"""Commands on jobs. No operator is shown what a job asks or answers: nothing here can open a seal."""

from hotset.admission.job_life import Cancel, JobState, decide
from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.core.errors import InvalidRequestError, NotFoundError
from hotset.core.ids import JobId, TenantId
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import JobRow

LISTED_MAX = 1000


class Jobs:
    """Jobs: one method a command."""

    def __init__(self, commits: Commits, *, keep_s: float) -> None:
        """Wire the commands.

        Args:
            commits: Where changes are made.
            keep_s: How long a job that ended is kept, in seconds.
        """
        self._commits = commits
        self._keep_s = keep_s

    async def listed(self, tenant: TenantId | None, state: str | None, limit: int) -> list[JobRow]:
        """Return at most `limit` jobs, newest first, of a tenant and in a state where given.

        Raises:
            InvalidRequestError: there is no such state, or the limit is out of bounds.
        """
        if state is not None and state not in {each.value for each in JobState}:
            raise InvalidRequestError(f"state is one of {', '.join(JobState)}.", param="state")
        if not 1 <= limit <= LISTED_MAX:
            raise InvalidRequestError(f"limit is from 1 to {LISTED_MAX}.", param="limit")
        wanted = None if state is None else JobState(state)
        return await self._commits.read(lambda catalogue: catalogue.jobs.listed(tenant, wanted, limit))

    async def get(self, job: JobId) -> JobRow:
        """Return a job.

        Raises:
            NotFoundError: there is no such job.
        """
        return await self._commits.read(lambda catalogue: _need_job(catalogue, job))

    async def cancel(self, actor: Actor, job: JobId) -> JobRow:
        """End a job; one that has ended stays as it is. Whoever runs it lets go of it within seconds.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such job.
        """
        actor.require("admin")

        def act(change: Change) -> JobRow:
            jobs = change.catalogue.jobs
            row = _need_job(change.catalogue, job)
            life = decide(row.life, Cancel(self._keep_s), jobs.now_s())
            if life is not None:
                jobs.enter(job, life)
                change.audit("job.cancel", job, tenant=row.tenant)
            return _need_job(change.catalogue, job)

        return await self._commits.run(actor, act)


def _need_job(catalogue: Catalogue, job: JobId) -> JobRow:
    row = catalogue.jobs.get(job)
    if row is None:
        raise NotFoundError(f"There is no job {job!r}; see `hotset job list`.", param="job")
    return row
