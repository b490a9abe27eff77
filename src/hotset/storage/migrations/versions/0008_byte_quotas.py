"""Quotas of bytes in workers' local stores. Tenants that are there get the default: none owed, no limit."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMNS = (
    "reserve_bytes INTEGER NOT NULL DEFAULT 0 CHECK (reserve_bytes >= 0)",
    "limit_bytes INTEGER CHECK (limit_bytes IS NULL OR (limit_bytes >= 1 AND limit_bytes >= reserve_bytes))",
)


def upgrade() -> None:
    for column in COLUMNS:
        op.execute(f"ALTER TABLE tenants ADD COLUMN {column}")
