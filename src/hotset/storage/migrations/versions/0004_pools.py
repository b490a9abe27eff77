"""Pools with their tenants and workers, homes of versions, and the freeze that an operator may set."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = (
    """CREATE TABLE pools (
        pool TEXT NOT NULL PRIMARY KEY CHECK (pool <> 'default'), base TEXT NOT NULL REFERENCES bases (digest),
        kind TEXT NOT NULL CHECK (kind IN ('shared', 'dedicated')), rank_class INTEGER CHECK (rank_class >= 1),
        release_schedule TEXT, created_at_s FLOAT NOT NULL)""",
    """CREATE TABLE pool_tenants (
        tenant TEXT NOT NULL REFERENCES tenants (tenant), base TEXT NOT NULL REFERENCES bases (digest),
        pool TEXT NOT NULL REFERENCES pools (pool), PRIMARY KEY (tenant, base))""",
    """CREATE TABLE workers (
        worker TEXT NOT NULL PRIMARY KEY, facts_json TEXT NOT NULL, pool TEXT,
        state TEXT NOT NULL DEFAULT 'serving' CHECK (state IN ('serving', 'cordoned', 'draining')),
        fence INTEGER NOT NULL CHECK (fence >= 1), is_lost INTEGER NOT NULL DEFAULT 0 CHECK (is_lost IN (0, 1)),
        registered_at_s FLOAT NOT NULL)""",
    "CREATE TABLE homes (version TEXT NOT NULL PRIMARY KEY, workers_json TEXT NOT NULL)",
    """CREATE TRIGGER workers_fence_grows BEFORE UPDATE ON workers WHEN NEW.fence < OLD.fence
        BEGIN SELECT RAISE(ABORT, 'a fence never falls'); END""",
)


def upgrade() -> None:
    for table in TABLES:
        op.execute(table)
