"""The book of jobs as tenants reach it: accept, look up, cancel, delete. A tenant's look-ups see its own jobs alone.

What is asked and answered is sealed before it is written. A job is accepted by the commit of its row, and by nothing
else (I8); what may follow is decided by `admission.job_life`, on the row as the same transaction reads it.
"""

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass

import msgspec

from hotset.admission.job_life import Cancel, JobLife, JobState, decide
from hotset.core.errors import IdempotencyKeyReusedError, JobNotFoundError, TooManyJobsError
from hotset.core.ids import JobId, KeyId, TenantId
from hotset.gateway.jobs.settings import JobSettings
from hotset.gateway.jobs.transactions import Transactions
from hotset.gateway.problems import ErrorObject
from hotset.storage.jobs import Jobs
from hotset.storage.rows import JobRow
from hotset.storage.sealing import Sealer
from hotset.telemetry.metrics import Metrics

_ID_BYTES = 16
#: No room is made but by the tenant itself, or by time.
_ROOM_AFTER_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request to be accepted."""

    tenant: TenantId
    key: KeyId
    key_sha256: str
    model: str
    endpoint: str
    #: ``job_`` or ``resp_``.
    id_prefix: str
    #: Of the snapshot that let it in.
    epoch: int
    body: bytes
    #: As the client sent it; None where it sent none.
    idempotency_key: bytes | None = None


class JobResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job came to: an answer or an error."""

    #: ``alias@N`` that answered, or was tried last.
    route: str = ""
    #: The endpoint's own JSON, or null.
    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorObject | None = None


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job with what was asked and, where it has ended, what it came to."""

    row: JobRow
    body: bytes
    result: JobResult | None


class JobBook:
    """Keeps jobs for one gateway; several may share the database."""

    def __init__(self, transactions: Transactions, sealer: Sealer, settings: JobSettings, metrics: Metrics) -> None:
        self.transactions = transactions
        self.sealer = sealer
        self.settings = settings
        self._metrics = metrics
        #: Set when something changed here that the runner may want to see at once.
        self.changed = asyncio.Event()

    async def accept(self, new: NewJob) -> JobRow:
        """Commit a job's row and return it; the one that is there where the same request came before under its key.

        Raises:
            TooManyJobsError: the tenant has as many jobs, or bytes in them, as it may.
            IdempotencyKeyReusedError: another request came under its key.
            JobsUnavailableError: the database failed; then there is no job.
        """
        job = JobId(new.id_prefix + secrets.token_hex(_ID_BYTES))
        sealed = self.sealer.seal(new.body, job=job, tenant=new.tenant, kind="body")

        def act(jobs: Jobs) -> JobRow:
            known = self._known(jobs, new)
            if known is not None:
                return known
            self._check_room(jobs, new.tenant, len(sealed))
            now_s = jobs.now_s()
            life = JobLife(expires_at_s=now_s + self.settings.run_within_s)
            row = JobRow(job, new.tenant, new.key, new.key_sha256, new.model, new.endpoint, new.epoch, now_s, life)
            jobs.add(row, sealed, idempotency_sha256=_idempotency_sha256(new.idempotency_key))
            return row

        row = await self.transactions.write(act)
        if row.job == job:
            self._metrics.job_accepted()
            self.changed.set()
        return row

    async def known(self, new: NewJob) -> JobRow | None:
        """Return the job that the same request under the same key led to before.

        Raises:
            IdempotencyKeyReusedError: another request came under its key.
            JobsUnavailableError: the database failed.
        """
        if new.idempotency_key is None:
            return None
        return await self.transactions.read(lambda jobs: self._known(jobs, new))

    async def find(self, tenant: TenantId, job: str) -> KeptJob:
        """Return one of the tenant's jobs.

        Raises:
            JobNotFoundError: the tenant has no such job.
            JobsUnavailableError: the database failed.
            SealBrokenError: what is kept of it does not open.
        """

        def look(jobs: Jobs) -> tuple[JobRow, bytes, bytes | None]:
            row = _need(jobs, tenant, job)
            return (row, *jobs.sealed(row.job))

        return self._opened(*await self.transactions.read(look))

    async def cancel(self, tenant: TenantId, job: str) -> KeptJob:
        """End one of the tenant's jobs unless it has ended, and return it as it then stands.

        Raises:
            JobNotFoundError: the tenant has no such job.
            JobsUnavailableError: the database failed.
            SealBrokenError: what is kept of it does not open.
        """

        def act(jobs: Jobs) -> float | None:
            row, now_s = _need(jobs, tenant, job), jobs.now_s()
            life = decide(row.life, Cancel(self.settings.keep_s), now_s)
            if life is None:
                return None
            jobs.enter(row.job, life)
            return now_s - row.created_at_s

        age_s = await self.transactions.write(act)
        if age_s is not None:
            self._metrics.job_ended(JobState.CANCELLED, age_s)
            self.changed.set()
        return await self.find(tenant, job)

    async def delete(self, tenant: TenantId, job: str) -> JobRow:
        """Remove one of the tenant's jobs, whether or not it has ended; return what it was.

        Raises:
            JobNotFoundError: the tenant has no such job.
            JobsUnavailableError: the database failed.
        """

        def act(jobs: Jobs) -> tuple[JobRow, float]:
            row = _need(jobs, tenant, job)
            jobs.delete(row.job)
            return row, jobs.now_s() - row.created_at_s

        row, age_s = await self.transactions.write(act)
        if row.life.ended_at_s is None:
            self._metrics.job_ended(JobState.CANCELLED, age_s)
        self.changed.set()
        return row

    async def peek(self, tenant: TenantId, job: str) -> JobRow:
        """Return one of the tenant's jobs without what is in it.

        Raises:
            JobNotFoundError: the tenant has no such job.
            JobsUnavailableError: the database failed.
        """
        return await self.transactions.read(lambda jobs: _need(jobs, tenant, job))

    def _known(self, jobs: Jobs, new: NewJob) -> JobRow | None:
        hashed = _idempotency_sha256(new.idempotency_key)
        row = None if hashed is None else jobs.by_idempotency(new.tenant, hashed)
        if row is None:
            return None
        body = self.sealer.open(jobs.sealed(row.job)[0], job=row.job, tenant=row.tenant, kind="body")
        if row.endpoint != new.endpoint or not hmac.compare_digest(body, new.body):
            raise IdempotencyKeyReusedError
        return row

    def _check_room(self, jobs: Jobs, tenant: TenantId, num_bytes: int) -> None:
        num_held, num_bytes_held = jobs.held(tenant)
        if num_held >= self.settings.per_tenant_max or num_bytes_held + num_bytes > self.settings.bytes_per_tenant_max:
            raise TooManyJobsError(retry_after_ms=_ROOM_AFTER_MS)

    def _opened(self, row: JobRow, sealed_body: bytes, sealed_result: bytes | None) -> KeptJob:
        body = self.sealer.open(sealed_body, job=row.job, tenant=row.tenant, kind="body")
        if sealed_result is None:
            return KeptJob(row, body, None)
        content = self.sealer.open(sealed_result, job=row.job, tenant=row.tenant, kind="result")
        return KeptJob(row, body, msgspec.json.decode(content, type=JobResult))


def _need(jobs: Jobs, tenant: TenantId, job: str) -> JobRow:
    row = jobs.get(JobId(job), tenant)
    if row is None:
        raise JobNotFoundError
    return row


def _idempotency_sha256(key: bytes | None) -> str | None:
    return None if key is None else hashlib.sha256(key).hexdigest()
