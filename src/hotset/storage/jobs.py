"""Jobs as rows: typed reads and writes within one transaction. What may follow what is `admission.job_life`'s.

Every change goes through `enter`, which writes a life that was decided on what this transaction read. Leases are
reckoned on the database's own clock (`now_s`), which all who claim jobs share.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, text, update

from hotset.admission.job_life import JobLife, JobState
from hotset.core.ids import JobId, KeyId, TenantId
from hotset.storage.rows import JobRow
from hotset.storage.schema import JOBS

#: Everything but what was asked and answered.
_PLAIN = [column for column in JOBS.c if column.name not in ("sealed_body", "sealed_result")]
#: Seconds since the Unix epoch, to the millisecond; one value within a statement.
_NOW = text("SELECT (julianday('now') - 2440587.5) * 86400.0")


@dataclass(frozen=True, slots=True)
class Right:
    """By what right jobs wait: a key of a tenant, and a model that it named."""

    tenant: TenantId
    key_sha256: str
    model: str


class Jobs:
    """Typed reads and writes of jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def now_s(self) -> float:
        """Return the database's clock."""
        return float(self._connection.execute(_NOW).scalar_one())

    def add(self, job: JobRow, sealed_body: bytes, *, idempotency_sha256: str | None) -> None:
        """Add an accepted job."""
        self._connection.execute(
            insert(JOBS).values(
                id=job.job,
                tenant=job.tenant,
                key=job.key,
                key_sha256=job.key_sha256,
                model=job.model,
                endpoint=job.endpoint,
                idempotency_sha256=idempotency_sha256,
                epoch=job.epoch,
                created_at_s=job.created_at_s,
                num_bytes=len(sealed_body),
                sealed_body=sealed_body,
                **_life_values(job.life),
            )
        )

    def enter(self, job: JobId, life: JobLife, *, code: str | None = None, sealed_result: bytes | None = None) -> None:
        """Write what was decided about a job, and, where it ended, with what."""
        values: dict[str, object] = _life_values(life)
        if code is not None:
            values["code"] = code
        if sealed_result is not None:
            values |= {"sealed_result": sealed_result, "num_bytes": JOBS.c.num_bytes + len(sealed_result)}
        self._connection.execute(update(JOBS).where(JOBS.c.id == job).values(**values))

    def delete(self, job: JobId) -> None:
        """Remove a job with all that is in it."""
        self._connection.execute(delete(JOBS).where(JOBS.c.id == job))

    def delete_all(self, tenant: TenantId) -> int:
        """Remove every job of the tenant; return how many there were."""
        return self._connection.execute(delete(JOBS).where(JOBS.c.tenant == tenant)).rowcount

    def forget(self, now_s: float) -> int:
        """Remove the jobs that ended and whose time is up; return how many there were."""
        is_over = and_(JOBS.c.expires_at_s <= now_s, JOBS.c.ended_at_s.is_not(None))
        return self._connection.execute(delete(JOBS).where(is_over)).rowcount

    # --- one job ---------------------------------------------------------------------------------------

    def get(self, job: JobId, tenant: TenantId | None = None) -> JobRow | None:
        """Return a job; of this tenant only, where one is given: another's is looked for and not found alike."""
        conditions = [JOBS.c.id == job] if tenant is None else [JOBS.c.id == job, JOBS.c.tenant == tenant]
        found = self._where(*conditions, limit=1)
        return found[0] if found else None

    def by_idempotency(self, tenant: TenantId, idempotency_sha256: str) -> JobRow | None:
        """Return the tenant's job that was accepted under this key."""
        found = self._where(JOBS.c.tenant == tenant, JOBS.c.idempotency_sha256 == idempotency_sha256, limit=1)
        return found[0] if found else None

    def sealed(self, job: JobId) -> tuple[bytes, bytes | None]:
        """Return the sealed body and, where there is one, the sealed result of a job that exists."""
        row = self._connection.execute(select(JOBS.c.sealed_body, JOBS.c.sealed_result).where(JOBS.c.id == job)).one()
        return row.sealed_body, row.sealed_result

    # --- many jobs -------------------------------------------------------------------------------------

    def held(self, tenant: TenantId) -> tuple[int, int]:
        """Return how many jobs the tenant has, ended ones too, and their bytes."""
        query = select(func.count(), func.coalesce(func.sum(JOBS.c.num_bytes), 0)).where(JOBS.c.tenant == tenant)
        count, num_bytes = self._connection.execute(query).one()
        return int(count), int(num_bytes)

    def oldest_claimable(self, now_s: float, epoch: int) -> list[tuple[TenantId, JobId]]:
        """Return each tenant's oldest job that may be claimed at this epoch, the oldest of all first."""
        place = func.row_number().over(partition_by=JOBS.c.tenant, order_by=(JOBS.c.created_at_s, JOBS.c.id))
        ranked = (
            select(JOBS.c.tenant, JOBS.c.id, JOBS.c.created_at_s, place.label("place"))
            .where(_is_claimable(now_s), JOBS.c.epoch <= epoch)
            .subquery()
        )
        query = select(ranked.c.tenant, ranked.c.id).where(ranked.c.place == 1).order_by(ranked.c.created_at_s, "id")
        return [(TenantId(row.tenant), JobId(row.id)) for row in self._connection.execute(query)]

    def counts(self) -> dict[JobState, int]:
        """Return how many jobs stand in each state that has any."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        return {JobState(state): count for state, count in self._connection.execute(query)}

    def is_any_due(self, now_s: float) -> bool:
        """Whether the time of any job is up, ended or not."""
        return bool(self._connection.execute(select(JOBS.c.id).where(JOBS.c.expires_at_s <= now_s).limit(1)).all())

    def late(self, now_s: float, limit: int) -> list[JobRow]:
        """Return jobs that have not ended and whose time is up."""
        return self._where(JOBS.c.expires_at_s <= now_s, JOBS.c.ended_at_s.is_(None), limit=limit)

    def rights(self, epoch: int) -> list[Right]:
        """Return by what rights jobs wait that were accepted up to this epoch, each once."""
        query = select(JOBS.c.tenant, JOBS.c.key_sha256, JOBS.c.model).where(_waits_since(epoch)).distinct()
        return [
            Right(TenantId(row.tenant), row.key_sha256, row.model)
            for row in self._connection.execute(query.order_by("tenant", "key_sha256", "model"))
        ]

    def waiting_under(self, right: Right, epoch: int) -> list[JobRow]:
        """Return the jobs that wait by this right and were accepted up to this epoch."""
        return self._where(
            _waits_since(epoch),
            JOBS.c.tenant == right.tenant,
            JOBS.c.key_sha256 == right.key_sha256,
            JOBS.c.model == right.model,
        )

    def listed(self, tenant: TenantId | None, state: JobState | None, limit: int) -> list[JobRow]:
        """Return at most `limit` jobs, newest first, of a tenant and in a state where given."""
        conditions: list[ColumnElement[bool]] = []
        if tenant is not None:
            conditions.append(JOBS.c.tenant == tenant)
        if state is not None:
            conditions.append(JOBS.c.state == state)
        query = select(*_PLAIN).where(*conditions).order_by(JOBS.c.created_at_s.desc(), JOBS.c.id).limit(limit)
        return [_job(row) for row in self._connection.execute(query)]

    def _where(self, *conditions: ColumnElement[bool], limit: int | None = None) -> list[JobRow]:
        query = select(*_PLAIN).where(*conditions).order_by(JOBS.c.created_at_s, JOBS.c.id).limit(limit)
        return [_job(row) for row in self._connection.execute(query)]


def _is_claimable(now_s: float) -> ColumnElement[bool]:
    """As `job_life.is_claimable`, for many at once."""
    waits = and_(JOBS.c.state == JobState.QUEUED, JOBS.c.not_before_s <= now_s)
    is_left = and_(JOBS.c.state == JobState.RUNNING, JOBS.c.lease_until_s <= now_s)
    return and_(or_(waits, is_left), JOBS.c.expires_at_s > now_s)


def _waits_since(epoch: int) -> ColumnElement[bool]:
    return and_(JOBS.c.state == JobState.QUEUED, JOBS.c.epoch <= epoch)


def _life_values(life: JobLife) -> dict[str, object]:
    return {
        "state": life.state.value,
        "fence": life.fence,
        "attempts": life.attempts,
        "not_before_s": life.not_before_s,
        "lease_until_s": life.lease_until_s,
        "expires_at_s": life.expires_at_s,
        "ended_at_s": life.ended_at_s,
    }


def _job(row: Row[tuple[object, ...]]) -> JobRow:
    life = JobLife(
        expires_at_s=row.expires_at_s,
        state=JobState(row.state),
        fence=row.fence,
        attempts=row.attempts,
        not_before_s=row.not_before_s,
        lease_until_s=row.lease_until_s,
        ended_at_s=row.ended_at_s,
    )
    return JobRow(
        job=JobId(row.id),
        tenant=TenantId(row.tenant),
        key=KeyId(row.key),
        key_sha256=row.key_sha256,
        model=row.model,
        endpoint=row.endpoint,
        epoch=row.epoch,
        created_at_s=row.created_at_s,
        life=life,
        code=row.code,
        num_bytes=row.num_bytes,
    )
