"""A simulated database's table of jobs; what may follow what is `admission.job_life`'s.

Each method is part of one transaction, as those of `storage.jobs` are, and every change goes through `enter`. Moments
are the database's own clock.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hotset.admission.job_life import UNENDED, JobEvent, JobLife, JobState, decide, is_claimable
from hotset.core.errors import HotsetError
from hotset.core.ids import JobId, TenantId
from hotset.planner.exchanges import Asked
from hotset.planner.job_rules import JobRules
from hotset.sim.world import World

#: The database's clock is nobody else's.
_AHEAD_S = 5000.0


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job."""

    job: JobId
    tenant: TenantId
    #: Of the snapshot that let it in.
    epoch: int
    asked: Asked
    created_at_s: float
    life: JobLife


class JobTable:
    """All jobs, none of which is ever forgotten here, so that every one can be accounted for."""

    def __init__(self, world: World, rules: JobRules) -> None:
        self._world, self._rules = world, rules
        self._rows: dict[JobId, JobRow] = {}

    def now_s(self) -> float:
        """Return the database's clock."""
        return self._world.now_s + _AHEAD_S

    @property
    def num_unended(self) -> int:
        """Jobs that wait or run."""
        return sum(row.life.state in UNENDED for row in self._rows.values())

    def add(self, tenant: TenantId, asked: Asked, *, epoch: int, within_s: float) -> JobRow:
        """Add a job that is to end within this time; it is accepted by that."""
        job, now_s = JobId(f"job{len(self._rows) + 1}"), self.now_s()
        row = self._rows[job] = JobRow(job, tenant, epoch, asked, now_s, JobLife(expires_at_s=now_s + within_s))
        self._rules.committed(job)
        return row

    def get(self, job: JobId) -> JobRow:
        """Return a job."""
        return self._rows[job]

    def enter(self, job: JobId, event: JobEvent, by: str) -> JobRow | None:
        """Let something happen to a job; return it as it then is, None where it came too late and changed nothing.

        Args:
            job: Which.
            event: What.
            by: Whose doing it is: a try's request, or in words who looks after all jobs.
        """
        row, now_s = self._rows[job], self.now_s()
        life = decide(row.life, event, now_s)
        if life is None:
            return None
        self._rules.entered(job, row.life, life, event, by, now_s)
        self._rows[job] = entered = replace(row, life=life)
        return entered

    def oldest_claimable(self, epoch: int) -> list[tuple[TenantId, JobId]]:
        """Return each tenant's oldest job that may be claimed at this epoch, the oldest of all first."""
        now_s, oldest = self.now_s(), dict[TenantId, JobId]()
        for row in self._rows.values():
            if row.epoch <= epoch and row.tenant not in oldest and is_claimable(row.life, now_s):
                oldest[row.tenant] = row.job
        return list(oldest.items())

    def late(self) -> list[JobId]:
        """Return the jobs that have not ended and whose time is up."""
        now_s = self.now_s()
        return [r.job for r in self._rows.values() if r.life.state in UNENDED and r.life.expires_at_s <= now_s]

    def without_right(self, reason_of: Callable[[JobRow], HotsetError | None], epoch: int) -> list[JobId]:
        """Return the jobs accepted up to this epoch that wait and, for a reason that is returned, may not start."""
        waiting = (row for row in self._rows.values() if row.life.state is JobState.QUEUED and row.epoch <= epoch)
        return [row.job for row in waiting if reason_of(row) is not None]
