"""Admin API: jobs, and whether a tenant may have any."""

from typing import cast

from hotset.control import bodies
from hotset.control.answers import Answer
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.core.ids import JobId, parse_tenant
from hotset.storage.rows import JobRow

_LISTED = 100


class JobAnswer(Answer):
    """A job, without a word of what it asks or answers."""

    id: str
    tenant: str
    key: str
    model: str
    endpoint: str
    state: str
    #: Of the error that it ended with.
    code: str | None
    attempts: int
    bytes: int
    created_at_s: float
    #: Not to be tried before.
    not_before_s: float
    #: Until when whoever runs it is taken for alive.
    lease_until_s: float | None
    ended_at_s: float | None
    #: When it is expired, or, once it has ended, forgotten.
    expires_at_s: float


class JobsAnswer(Answer):
    """Jobs, newest first."""

    jobs: list[JobAnswer]


class AllowsJobsAnswer(Answer):
    """Whether a tenant's requests may be accepted as jobs."""

    tenant: str
    allows_jobs: bool


def job_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of jobs."""

    async def list_some(call: Call) -> Reply:
        named = call.query("tenant")
        tenant = None if named is None else parse_tenant(named)
        rows = await control.jobs.listed(tenant, call.query("state"), call.number("limit", _LISTED))
        return Reply(JobsAnswer(jobs=[_answer(row) for row in rows]))

    async def show(call: Call) -> Reply:
        return Reply(_answer(await control.jobs.get(JobId(call.param("id")))))

    async def cancel(call: Call) -> Reply:
        return Reply(_answer(await control.jobs.cancel(call.actor, JobId(call.param("id")))))

    async def allow(call: Call) -> Reply:
        body = cast("bodies.AllowJobsBody", call.body)
        tenant = parse_tenant(call.param("tenant"))
        row = await control.tenants.allow_jobs(call.actor, tenant, allowed=body.allowed)
        return Reply(AllowsJobsAnswer(tenant=row.tenant, allows_jobs=row.allows_jobs))

    query = {"tenant": "string", "state": "string", "limit": "integer"}
    allows, allow_body = AllowsJobsAnswer, bodies.AllowJobsBody
    return [
        Endpoint("GET", "/jobs", "List jobs", list_some, JobsAnswer, query=query),
        Endpoint("GET", "/jobs/{id}", "Show a job", show, JobAnswer),
        Endpoint("POST", "/jobs/{id}/cancel", "End a job", cancel, JobAnswer, bodies.Nothing),
        Endpoint("POST", "/tenants/{tenant}/jobs", "Allow or forbid a tenant jobs", allow, allows, allow_body),
    ]


def _answer(row: JobRow) -> JobAnswer:
    return JobAnswer(
        id=row.job,
        tenant=row.tenant,
        key=row.key,
        model=row.model,
        endpoint=row.endpoint,
        state=row.life.state.value,
        code=row.code,
        attempts=row.life.attempts,
        bytes=row.num_bytes,
        created_at_s=row.created_at_s,
        not_before_s=row.life.not_before_s,
        lease_until_s=row.life.lease_until_s,
        ended_at_s=row.life.ended_at_s,
        expires_at_s=row.life.expires_at_s,
    )
