"""The first schema: bases, tenants, keys, grants, versions and all that is said of them, audit."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_VERSION = "owner TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL"
_OF_VERSION = "FOREIGN KEY (owner, name, number) REFERENCES versions (owner, name, number)"

TABLES = (
    "CREATE TABLE settings (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE bases (
        digest TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, name_fold TEXT NOT NULL UNIQUE,
        folder TEXT NOT NULL, base_json TEXT NOT NULL, created_at_s FLOAT NOT NULL)""",
    """CREATE TABLE tenants (
        tenant TEXT NOT NULL PRIMARY KEY, created_at_s FLOAT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'removed')))""",
    """CREATE TABLE keys (
        id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants (tenant),
        token_sha256 TEXT NOT NULL UNIQUE, label TEXT NOT NULL, aliases_json TEXT,
        created_at_s FLOAT NOT NULL, expires_at_s FLOAT, revoked_at_s FLOAT)""",
    """CREATE TABLE operators (
        id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, token_sha256 TEXT NOT NULL UNIQUE,
        roles_json TEXT NOT NULL, created_at_s FLOAT NOT NULL, revoked_at_s FLOAT)""",
    """CREATE TABLE adapters (
        owner TEXT NOT NULL REFERENCES tenants (tenant), name TEXT NOT NULL, name_fold TEXT NOT NULL,
        created_at_s FLOAT NOT NULL, PRIMARY KEY (owner, name), UNIQUE (owner, name_fold))""",
    """CREATE TABLE grants (
        tenant TEXT NOT NULL REFERENCES tenants (tenant), alias TEXT NOT NULL, alias_fold TEXT NOT NULL,
        adapter_owner TEXT, adapter_name TEXT, base TEXT REFERENCES bases (digest), created_at_s FLOAT NOT NULL,
        PRIMARY KEY (tenant, alias), UNIQUE (tenant, alias_fold),
        FOREIGN KEY (adapter_owner, adapter_name) REFERENCES adapters (owner, name),
        CHECK ((base IS NULL) = (adapter_owner IS NOT NULL)),
        CHECK ((adapter_owner IS NULL) = (adapter_name IS NULL)))""",
    f"""CREATE TABLE versions (
        {_VERSION}, base TEXT NOT NULL REFERENCES bases (digest), digest TEXT NOT NULL,
        manifest_json TEXT NOT NULL, publisher TEXT NOT NULL, created_at_s FLOAT NOT NULL,
        PRIMARY KEY (owner, name, number), FOREIGN KEY (owner, name) REFERENCES adapters (owner, name),
        CHECK (number >= 1))""",
    f"""CREATE TABLE version_files (
        {_VERSION}, file TEXT NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name, number, file), {_OF_VERSION})""",
    "CREATE INDEX ix_version_files_digest ON version_files (digest)",
    f"CREATE TABLE version_states ({_VERSION}, state TEXT NOT NULL, PRIMARY KEY (owner, name, number), {_OF_VERSION})",
    f"""CREATE TABLE version_history (
        id INTEGER NOT NULL PRIMARY KEY, {_VERSION}, state TEXT NOT NULL, reason TEXT NOT NULL,
        actor TEXT NOT NULL, at_s FLOAT NOT NULL, {_OF_VERSION})""",
    f"""CREATE TABLE proofs (
        id INTEGER NOT NULL PRIMARY KEY, {_VERSION}, engine TEXT NOT NULL, dtype TEXT NOT NULL,
        hardware_class TEXT NOT NULL, fingerprint_json TEXT NOT NULL, at_s FLOAT NOT NULL, {_OF_VERSION})""",
    f"""CREATE TABLE approvals (
        {_VERSION}, reviewer TEXT NOT NULL, approval_json TEXT NOT NULL, at_s FLOAT NOT NULL,
        PRIMARY KEY (owner, name, number), {_OF_VERSION})""",
    f"CREATE TABLE purges ({_VERSION}, at_s FLOAT NOT NULL, PRIMARY KEY (owner, name, number), {_OF_VERSION})",
    """CREATE TABLE bans (
        digest TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL, actor TEXT NOT NULL, at_s FLOAT NOT NULL)""",
    """CREATE TABLE audit (
        number INTEGER NOT NULL PRIMARY KEY, at_s FLOAT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
        subject TEXT NOT NULL, details_json TEXT NOT NULL, hash TEXT NOT NULL)""",
)

FROZEN = (
    "versions",
    "version_files",
    "version_history",
    "proofs",
    "approvals",
    "purges",
    "bans",
    "audit",
)
#: Tables whose rows may change but never go.
KEPT = ("version_states", "tenants", "keys", "operators", "adapters", "bases")


def upgrade() -> None:
    for table in TABLES:
        op.execute(table)
    for table in FROZEN:
        op.execute(_refuse("UPDATE", table))
    for table in (*FROZEN, *KEPT):
        op.execute(_refuse("DELETE", table))
    for table in ("versions", "approvals"):
        op.execute(_refuse_replacement(table))
    op.execute(
        """CREATE TRIGGER version_states_end BEFORE UPDATE ON version_states
        WHEN OLD.state IN ('retired', 'rejected') OR NEW.owner <> OLD.owner OR NEW.name <> OLD.name
            OR NEW.number <> OLD.number
        BEGIN SELECT RAISE(ABORT, 'a retired or rejected version stays so'); END"""
    )


def _refuse(verb: str, table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} rows take no {verb}'); END"
    )


def _refuse_replacement(table: str) -> str:
    """INSERT OR REPLACE fires no DELETE trigger unless recursive triggers are on; so it is refused by itself."""
    same = "owner = NEW.owner AND name = NEW.name AND number = NEW.number"
    exists = f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - the names are the constants above
    return (
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN {exists} "
        f"BEGIN SELECT RAISE(ABORT, '{table} rows are never replaced'); END"
    )
