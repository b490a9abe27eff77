"""Jobs as operators reach them: seen, ended, forbidden; and gone with their tenant."""

from pathlib import Path

from hotset.admission.job_life import JobLife, JobState
from hotset.core.ids import JobId, KeyId, TenantId
from hotset.storage.database import Database
from hotset.storage.rows import JobRow
from tests.support.installation import Installation, installation, run

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")


async def with_jobs(inst: Installation) -> None:
    """Two tenants, each with one job that waits."""
    database = Database(inst.folder.database)
    for name in (ACME, UMBRELLA):
        await inst.ok("POST", "/tenants", {"tenant": name})
        life = JobLife(expires_at_s=4e9)
        row = JobRow(JobId(f"job_{name}"), name, KeyId("k1"), "ab" * 32, "support", "chat", 1, 10.0, life)
        with database.write() as catalogue:
            catalogue.jobs.add(row, b"sealed", idempotency_sha256=None)
    database.close()


def test_jobs_are_listed_shown_and_ended_and_the_act_is_audited(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await with_jobs(inst)
            listed = (await inst.ok("GET", "/jobs"))["jobs"]
            assert {row["id"] for row in listed} == {"job_acme", "job_umbrella"}
            only = (await inst.ok("GET", "/jobs?tenant=acme&state=queued&limit=5"))["jobs"]
            assert [(row["id"], row["bytes"], row["code"]) for row in only] == [("job_acme", 6, None)]
            before = inst.holder.newest
            ended = await inst.ok("POST", "/jobs/job_acme/cancel", {})
            assert ended["state"] == "cancelled"
            assert ended["expires_at_s"] - ended["ended_at_s"] == 86_400.0
            assert inst.holder.newest is not before, "whoever runs it looks at once"
            assert await inst.ok("POST", "/jobs/job_acme/cancel", {}) == ended
            assert await inst.ok("GET", "/jobs/job_acme") == ended
            acts = [row for row in (await inst.ok("GET", "/audit"))["entries"] if row["action"] == "job.cancel"]
            assert [(row["subject"], row["details"]) for row in acts] == [("job_acme", {"tenant": "acme"})]
            assert (await inst.ok("GET", "/jobs?state=cancelled"))["jobs"] == [ended]

    run(story())


def test_what_can_not_be_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            assert (await inst.ok("GET", "/jobs"))["jobs"] == []
            for path in ("/jobs?state=hot", "/jobs?limit=0", "/jobs?limit=1001"):
                assert (await inst.call("GET", path)).json()["code"] == "invalid_request"
            assert (await inst.call("GET", "/jobs/job_none")).json()["code"] == "not_found"
            made = await inst.ok("POST", "/operators", {"name": "ann", "roles": ["deployer"]})
            for path, body in (("/jobs/job_none/cancel", {}), ("/tenants/acme/jobs", {"allowed": False})):
                assert (await inst.call("POST", path, body, token=made["token"])).status_code == 403

    run(story())


def test_a_tenant_is_forbidden_jobs_and_allowed_them_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await with_jobs(inst)
            assert inst.holder.newest.without_jobs == frozenset()
            assert (await inst.ok("POST", "/tenants/acme/jobs", {"allowed": False}))["allows_jobs"] is False
            assert inst.holder.newest.without_jobs == {ACME}
            assert [row["allows_jobs"] for row in (await inst.ok("GET", "/tenants"))["tenants"]] == [False, True]
            newest = inst.holder.newest
            await inst.ok("POST", "/tenants/acme/jobs", {"allowed": False})
            assert inst.holder.newest is newest, "nothing changed"
            await inst.ok("POST", "/tenants/acme/jobs", {"allowed": True})
            assert inst.holder.newest.without_jobs == frozenset()
            assert (await inst.ok("GET", "/jobs/job_acme"))["state"] == JobState.QUEUED

    run(story())


def test_a_tenants_jobs_go_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await with_jobs(inst)
            await inst.ok("DELETE", "/tenants/acme")
            assert [row["id"] for row in (await inst.ok("GET", "/jobs"))["jobs"]] == ["job_umbrella"]

    run(story())
