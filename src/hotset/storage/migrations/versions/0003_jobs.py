"""Jobs, with their sealed bodies and results, and whether a tenant may have any. Tenants that are there may."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATES = "('queued', 'running', 'completed', 'failed', 'cancelled', 'expired')"

STATEMENTS = (
    "ALTER TABLE tenants ADD COLUMN allows_jobs INTEGER NOT NULL DEFAULT 1 CHECK (allows_jobs IN (0, 1))",
    f"""CREATE TABLE jobs (
        id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants (tenant), key TEXT NOT NULL,
        key_sha256 TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL, idempotency_sha256 TEXT,
        epoch INTEGER NOT NULL,
        created_at_s FLOAT NOT NULL, state TEXT NOT NULL CHECK (state IN {STATES}),
        fence INTEGER NOT NULL CHECK (fence >= 0), attempts INTEGER NOT NULL CHECK (attempts >= 0),
        not_before_s FLOAT NOT NULL, lease_until_s FLOAT, expires_at_s FLOAT NOT NULL, ended_at_s FLOAT,
        code TEXT, num_bytes INTEGER NOT NULL, sealed_body BLOB NOT NULL, sealed_result BLOB,
        UNIQUE (tenant, idempotency_sha256),
        CHECK ((lease_until_s IS NOT NULL) = (state = 'running')),
        CHECK ((ended_at_s IS NULL) = (state IN ('queued', 'running'))),
        CHECK (sealed_result IS NULL OR ended_at_s IS NOT NULL))""",
    "CREATE INDEX ix_jobs_state ON jobs (state, not_before_s)",
    "CREATE INDEX ix_jobs_tenant ON jobs (tenant, created_at_s)",
    "CREATE INDEX ix_jobs_expires ON jobs (expires_at_s)",
    # Whatever a program believes: what has ended stays as it ended, and only a holder's fence goes up.
    """CREATE TRIGGER jobs_end BEFORE UPDATE ON jobs WHEN OLD.ended_at_s IS NOT NULL OR NEW.fence < OLD.fence
    BEGIN SELECT RAISE(ABORT, 'a job that has ended stays as it is'); END""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
