"""Jobs in real SQLite: what is found, what is claimable, what the database itself refuses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from hotset.admission.job_life import ENDED, Cancel, Claim, JobLife, JobState, decide, is_claimable
from hotset.core.ids import JobId, KeyId, TenantId
from hotset.storage.database import Database
from hotset.storage.jobs import Jobs, Right
from hotset.storage.rows import JobRow

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
CLAIM = Claim(lease_s=5.0, attempts_max=3, keep_s=50.0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "hotset.db")
    database.migrate()
    with database.write() as catalogue:
        catalogue.tenants.add(ACME, 1.0)
        catalogue.tenants.add(GLOBEX, 1.0)
    yield database
    database.close()


def put(jobs: Jobs, name: str, *, tenant: TenantId = ACME, at_s: float = 10.0, life: JobLife | None = None) -> JobRow:
    row = JobRow(
        JobId(name), tenant, KeyId("k1"), "ab" * 32, "support@2", "chat", 3, at_s, life or JobLife(expires_at_s=100.0)
    )
    jobs.add(row, b"sealed", idempotency_sha256=None)
    return replace(row, num_bytes=6)


def test_a_job_is_found_by_its_own_tenant(database: Database) -> None:
    with database.write() as catalogue:
        row = put(catalogue.jobs, "job_1")
        assert catalogue.jobs.get(row.job) == row
        assert catalogue.jobs.get(row.job, ACME) == row
        assert catalogue.jobs.get(row.job, GLOBEX) is None
        assert catalogue.jobs.sealed(row.job) == (b"sealed", None)
        assert catalogue.jobs.held(ACME) == (1, 6)
        assert catalogue.jobs.held(GLOBEX) == (0, 0)


def test_the_rows_found_claimable_are_those_the_table_of_lives_says(database: Database) -> None:
    lives = [
        JobLife(expires_at_s=100.0),
        JobLife(expires_at_s=100.0, not_before_s=20.0),
        JobLife(expires_at_s=100.0, not_before_s=20.1),
        JobLife(expires_at_s=20.0),
        JobLife(expires_at_s=100.0, state=JobState.RUNNING, fence=1, lease_until_s=20.0),
        JobLife(expires_at_s=100.0, state=JobState.RUNNING, fence=1, lease_until_s=20.1),
        *(JobLife(expires_at_s=100.0, state=state, ended_at_s=5.0) for state in ENDED),
    ]
    for life in lives:
        with database.write() as catalogue:
            row = put(catalogue.jobs, "job_1", life=life)
            found = catalogue.jobs.oldest_claimable(20.0, 3)
            assert bool(found) is is_claimable(life, 20.0), life
            catalogue.jobs.delete(row.job)


def test_each_tenants_oldest_is_found_oldest_first(database: Database) -> None:
    with database.write() as catalogue:
        for name, tenant, at_s in (("job_1", ACME, 12.0), ("job_2", ACME, 11.0), ("job_3", GLOBEX, 10.0)):
            put(catalogue.jobs, name, tenant=tenant, at_s=at_s)
        assert catalogue.jobs.oldest_claimable(20.0, 3) == [(GLOBEX, "job_3"), (ACME, "job_2")]
        assert catalogue.jobs.oldest_claimable(20.0, 2) == [], "accepted under a later snapshot than that"
        assert catalogue.jobs.rights(2) == []
        assert [row.job for row in catalogue.jobs.listed(ACME, JobState.QUEUED, 10)] == ["job_1", "job_2"]
        assert catalogue.jobs.counts() == {JobState.QUEUED: 3}
        assert catalogue.jobs.rights(3) == [Right(ACME, "ab" * 32, "support@2"), Right(GLOBEX, "ab" * 32, "support@2")]
        assert catalogue.jobs.delete_all(ACME) == 2


def test_what_ended_stays_as_it_ended_whoever_writes(database: Database) -> None:
    with database.write() as catalogue:
        jobs = catalogue.jobs
        row = put(jobs, "job_1")
        life = decide(row.life, Cancel(50.0), 20.0)
        assert life is not None
        jobs.enter(row.job, life)
    with pytest.raises(IntegrityError, match="stays as it is"), database.write() as catalogue:
        catalogue.jobs.enter(row.job, replace(row.life, fence=9))
    with database.write() as catalogue:
        assert catalogue.jobs.forget(69.9) == 0
        assert catalogue.jobs.forget(70.0) == 1


def test_a_fence_never_goes_back(database: Database) -> None:
    with database.write() as catalogue:
        row = put(catalogue.jobs, "job_1")
        life = decide(row.life, CLAIM, 20.0)
        assert life is not None
        catalogue.jobs.enter(row.job, life)
    with pytest.raises(IntegrityError), database.write() as catalogue:
        catalogue.jobs.enter(row.job, row.life)


def test_one_idempotency_key_is_one_job_of_a_tenant(database: Database) -> None:
    with database.write() as catalogue:
        row = put(catalogue.jobs, "job_1")
        other = replace(row, job=JobId("job_2"))
        catalogue.jobs.add(other, b"sealed", idempotency_sha256="cd")
        catalogue.jobs.add(replace(row, job=JobId("job_3"), tenant=GLOBEX), b"sealed", idempotency_sha256="cd")
        found = catalogue.jobs.by_idempotency(ACME, "cd")
        assert found is not None
        assert found.job == "job_2"
        assert catalogue.jobs.by_idempotency(ACME, "ef") is None
    with pytest.raises(IntegrityError), database.write() as catalogue:
        catalogue.jobs.add(replace(row, job=JobId("job_4")), b"sealed", idempotency_sha256="cd")


def test_the_databases_clock_is_the_time_of_day(database: Database, tmp_path: Path) -> None:
    with database.read() as catalogue:
        now_s = catalogue.jobs.now_s()
    (tmp_path / "now").touch()
    assert abs((tmp_path / "now").stat().st_mtime - now_s) < 60
