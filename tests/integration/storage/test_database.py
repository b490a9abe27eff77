"""The database against real SQLite: durable, migrated, and unwilling to change what was published."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from hotset.core.base import BaseVersion
from hotset.core.errors import ConfigError
from hotset.core.ids import AdapterId, Digest, TenantId, VersionRef
from hotset.core.messages import ModuleSpec
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.core.versions import Approval, FileEntry, Manifest
from hotset.storage.database import Database
from hotset.storage.migrations import upgrade
from hotset.storage.rows import TenantRow
from hotset.storage.schema import METADATA
from tests.support.adapters import tiny_base_version

ACME = TenantId("acme")
SUPPORT = AdapterId(ACME, "support")
FIRST = VersionRef(SUPPORT, 1)
BASE: BaseVersion = tiny_base_version()
DIGEST = Digest("sha256:" + "1" * 64)
MANIFEST = Manifest(
    files=(FileEntry(name="adapter_model.safetensors", digest=DIGEST, size_bytes=3),),
    modules=(
        ModuleSpec(
            module="m", rank=4, alpha=8.5, scaling=2.125, key_a="a", key_b="b", file="adapter_model.safetensors"
        ),
    ),
    rank_max=4,
    overrides=("other_base",),
    warnings=(("no_effect", "zero"),),
)
APPROVAL = Approval(reviewer_key="ed25519:0123456789abcdef", signature="00" * 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hotset.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database(path)
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def published(database: Database) -> Database:
    with database.write() as catalogue:
        catalogue.bases.add(BASE, "/models/tiny", 1.0)
        catalogue.tenants.add(ACME, 1.0)
        catalogue.adapters.add(SUPPORT, 1.0)
        catalogue.versions.add(FIRST, BASE.digest, DIGEST, MANIFEST, publisher="ann", now_s=2.0)
        catalogue.versions.enter_state(FIRST, "approved", actor="ann", now_s=2.0)
        catalogue.trust.add_approval(FIRST, APPROVAL, reviewer="bob", now_s=3.0)
        catalogue.trust.add_ban(Digest("sha256:" + "2" * 64), "poison", actor="bob", now_s=3.0)
        catalogue.audit.append("ann", "version.publish", str(FIRST), {"digest": DIGEST}, now_s=2.0)
        catalogue.audit.append("bob", "version.approve", str(FIRST), {}, now_s=3.0)
    return database


def test_migrations_make_the_schema_that_the_code_reads(database: Database, path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()
    database.migrate()  # a second start changes nothing


def test_a_migration_that_breaks_off_leaves_nothing(path: Path) -> None:
    database = Database(path)
    with pytest.raises(KeyError), database._begin("BEGIN IMMEDIATE") as connection:
        upgrade(connection)
        raise KeyError
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    raw.close()
    database.migrate()
    with database.read() as catalogue:
        assert catalogue.tenants.all() == []
    database.close()


def test_a_database_of_the_first_schema_keeps_its_rows_and_gives_tenants_the_default_quota(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        upgrade(connection, to="0001")
        connection.execute(text("INSERT INTO tenants (tenant, state, created_at_s) VALUES ('acme', 'suspended', 7.5)"))
        connection.execute(text("INSERT INTO keys VALUES ('key-1', 'acme', 'sha', 'laptop', NULL, 8.5, NULL, NULL)"))
        columns = [row.name for row in connection.execute(text("PRAGMA table_info(tenants)"))]
        assert "reserve_slots" not in columns
    engine.dispose()
    database = Database(path)
    database.migrate()
    database.migrate()  # and once only
    with database.read() as catalogue:
        assert catalogue.tenants.all() == [TenantRow(ACME, "suspended", 7.5, DEFAULT_QUOTA)]
        assert [key.label for key in catalogue.keys.all(ACME)] == ["laptop"]
    with pytest.raises(IntegrityError, match="take no DELETE"), database.write() as catalogue:
        catalogue.tenants._connection.execute(text("DELETE FROM tenants"))
    database.close()


def test_a_tenant_is_added_by_the_code_before_quotas_as_well(database: Database, path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO tenants (tenant, state, created_at_s) VALUES ('acme', 'active', 1.0)")
    raw.commit()
    raw.close()
    with database.read() as catalogue:
        assert catalogue.tenants.get(ACME) == TenantRow(ACME, "active", 1.0, DEFAULT_QUOTA)


@pytest.mark.parametrize("quota", [Quota(2, 4, 30.5, 1 << 40, 1 << 44), Quota(3, None, None, 5), DEFAULT_QUOTA])
def test_a_quota_reads_back_as_it_was_written(database: Database, quota: Quota) -> None:
    other = TenantId("umbrella")
    with database.write() as catalogue:
        catalogue.tenants.add(ACME, 1.0)
        catalogue.tenants.add(other, 1.0)
        catalogue.tenants.change_quota(ACME, Quota(1, 1, 1.0))
        catalogue.tenants.change_quota(ACME, quota)
    with database.read() as catalogue:
        assert [row.quota for row in catalogue.tenants.all()] == [quota, DEFAULT_QUOTA]


@pytest.mark.parametrize("quota", [Quota(-1), Quota(0, 0), Quota(3, 2), Quota(loads_per_minute=0.0)])
def test_the_database_itself_takes_no_quota_that_makes_no_sense(database: Database, quota: Quota) -> None:
    with database.write() as catalogue:
        catalogue.tenants.add(ACME, 1.0)
    with pytest.raises(IntegrityError, match="CHECK"), database.write() as catalogue:
        catalogue.tenants.change_quota(ACME, quota)


def test_settings_that_durability_rests_on(database: Database, path: Path) -> None:
    with database._engine.connect() as connection:
        pragma = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}
    assert path.stat().st_mode & 0o077 == 0


def test_a_block_that_raises_writes_nothing(database: Database) -> None:
    with pytest.raises(KeyError), database.write() as catalogue:
        catalogue.tenants.add(ACME, 1.0)
        raise KeyError
    with database.read() as catalogue:
        assert catalogue.tenants.all() == []


def test_a_version_reads_back_as_it_was_written(published: Database) -> None:
    with published.read() as catalogue:
        row = catalogue.versions.get(FIRST)
        assert row is not None
        assert (row.manifest, row.approval, row.state, row.publisher) == (MANIFEST, APPROVAL, "approved", "ann")
        assert (row.is_banned, row.purged_at_s, row.reviewer, row.approved_at_s) == (False, None, "bob", 3.0)
        assert catalogue.versions.next_number(SUPPORT) == 2
        assert catalogue.versions.named_blobs() == {DIGEST}
        assert [base.base for base in catalogue.bases.all()] == [BASE]


def test_purged_and_banned_show(published: Database) -> None:
    with published.write() as catalogue:
        catalogue.trust.add_purge(FIRST, 5.0)
        catalogue.trust.add_ban(DIGEST, "bad", actor="bob", now_s=6.0)
        catalogue.trust.add_ban(DIGEST, "again", actor="bob", now_s=7.0)
    with published.read() as catalogue:
        row = catalogue.versions.get(FIRST)
        assert row is not None
        assert (row.is_banned, row.purged_at_s) == (True, 5.0)
        assert catalogue.versions.named_blobs() == set()


def test_a_quarantine_shows_until_it_is_lifted(published: Database) -> None:
    with published.write() as catalogue:
        catalogue.trust.quarantine(DIGEST, "odd", code="operator", actor="bob", now_s=6.0)
        catalogue.trust.quarantine(DIGEST, "odder", code="operator", actor="bob", now_s=7.0)
        row = catalogue.versions.get(FIRST)
        assert row is not None
        assert (row.is_quarantined, catalogue.trust.num_quarantined()) == (True, 1)
        assert row.num_releases == 0
        catalogue.trust.lift_quarantine(DIGEST)
        catalogue.trust.lift_quarantine(DIGEST)
        row = catalogue.versions.get(FIRST)
        assert row is not None
        assert (row.is_quarantined, catalogue.trust.num_quarantined()) == (False, 0)
        assert row.num_releases == 1
        catalogue.trust.quarantine(DIGEST, "odd again", code="operator", actor="bob", now_s=8.0)
        catalogue.trust.lift_quarantine(DIGEST)
        row = catalogue.versions.get(FIRST)
        assert row is not None
        assert row.num_releases == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE versions SET digest = 'sha256:x'",
        "UPDATE versions SET number = 2",
        "DELETE FROM versions",
        "INSERT OR REPLACE INTO versions SELECT owner, name, number, base, 'x', manifest_json, 'e', 0 FROM versions",
        "UPDATE version_files SET digest = 'sha256:x'",
        "DELETE FROM version_files",
        "UPDATE approvals SET approval_json = '{}'",
        "DELETE FROM approvals",
        "INSERT OR REPLACE INTO approvals SELECT owner, name, number, 'eve', approval_json, 0 FROM approvals",
        "DELETE FROM version_states",
        "UPDATE version_states SET number = 7",
        "UPDATE version_history SET state = 'x'",
        "DELETE FROM version_history",
        "UPDATE bans SET digest = 'x'",
        "DELETE FROM bans",
        "UPDATE audit SET actor = 'eve'",
        "DELETE FROM audit",
        "DELETE FROM tenants",
        "DELETE FROM bases",
    ],
)
def test_what_was_published_takes_no_change(published: Database, path: Path, statement: str) -> None:
    """I7 holds below the code, for a tool that opens the file by itself as well."""
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    raw.close()


@pytest.mark.parametrize("end", ["retired", "rejected"])
def test_an_ended_version_never_leaves_its_state(published: Database, end: str) -> None:
    with published.write() as catalogue:
        catalogue.versions.enter_state(FIRST, end, actor="bob", now_s=4.0)
    with pytest.raises(IntegrityError, match="stays so"), published.write() as catalogue:
        catalogue.versions.enter_state(FIRST, "active", actor="eve", now_s=5.0)
    with published.read() as catalogue:
        assert [step.state for step in catalogue.versions.history(FIRST)] == ["approved", end]


def test_a_number_is_taken_once(published: Database) -> None:
    with pytest.raises(IntegrityError), published.write() as catalogue:
        catalogue.versions.add(FIRST, BASE.digest, DIGEST, MANIFEST, publisher="eve", now_s=2.0)


def test_a_version_needs_its_adapter_base_and_owner(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as catalogue:
        catalogue.versions.add(FIRST, BASE.digest, DIGEST, MANIFEST, publisher="eve", now_s=2.0)


def test_the_audit_chain_holds_until_somebody_edits_it(published: Database, path: Path) -> None:
    with published.read() as catalogue:
        assert catalogue.audit.verify().first_broken is None
        assert catalogue.audit.verify().num_entries == 2
    raw = sqlite3.connect(path)
    raw.execute("DROP TRIGGER audit_no_update")
    raw.execute("UPDATE audit SET actor = 'eve' WHERE number = 1")
    raw.commit()
    with published.read() as catalogue:
        assert catalogue.audit.verify().first_broken == 1


def test_an_audit_entry_taken_out_shows(published: Database, path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("DROP TRIGGER audit_no_delete")
    raw.execute("DELETE FROM audit WHERE number = 1")
    raw.commit()
    with published.read() as catalogue:
        assert catalogue.audit.verify().first_broken == 1


def test_epochs_count_up(database: Database) -> None:
    with database.write() as catalogue:
        assert [catalogue.epoch(), catalogue.advance_epoch(), catalogue.advance_epoch()] == [0, 1, 2]
    with database.read() as catalogue:
        assert catalogue.epoch() == 2


@pytest.mark.parametrize(("offset", "num_bytes"), [(0, 100), (4096, 60_000)])
def test_a_damaged_file_is_named(published: Database, path: Path, offset: int, num_bytes: int) -> None:
    published.close()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * num_bytes)
    damaged = Database(path)
    with pytest.raises(ConfigError, match="damaged"):
        damaged.migrate()
    damaged.close()
