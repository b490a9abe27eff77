"""Withdrawals that end what runs, for holders that hear of them late. What was cut before this was told already."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLE = """CREATE TABLE cuts (
    id INTEGER NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL, withdrawal_json TEXT NOT NULL, at_s FLOAT NOT NULL)"""


def upgrade() -> None:
    op.execute(TABLE)
