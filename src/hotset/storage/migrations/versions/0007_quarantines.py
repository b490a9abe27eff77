"""Quarantines: digests that are held back until they are released. What was banned before stays banned."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLE = """CREATE TABLE quarantines (
    digest TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL, code TEXT NOT NULL,
    actor TEXT NOT NULL, at_s FLOAT NOT NULL)"""


def upgrade() -> None:
    op.execute(TABLE)
