"""Quotas of tenants: slots reserved, slots at most, loads a minute. Tenants that are there get the default."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = (
    "reserve_slots INTEGER NOT NULL DEFAULT 0 CHECK (reserve_slots >= 0)",
    "limit_slots INTEGER CHECK (limit_slots IS NULL OR (limit_slots >= 1 AND limit_slots >= reserve_slots))",
    "loads_per_minute FLOAT CHECK (loads_per_minute IS NULL OR loads_per_minute > 0)",
)


def upgrade() -> None:
    for column in COLUMNS:
        op.execute(f"ALTER TABLE tenants ADD COLUMN {column}")
