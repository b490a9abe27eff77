"""Which batches of usage were counted, and which gateways there are. Usage that was counted before stays as it is."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

USAGE_STREAMS = """CREATE TABLE usage_streams (
    role TEXT NOT NULL, name TEXT NOT NULL, stream TEXT NOT NULL,
    number INTEGER NOT NULL, at_s FLOAT NOT NULL,
    PRIMARY KEY (role, name, stream))"""
GATEWAYS = """CREATE TABLE gateways (
    gateway TEXT NOT NULL PRIMARY KEY, registered_at_s FLOAT NOT NULL)"""


def upgrade() -> None:
    op.execute(USAGE_STREAMS)
    op.execute(GATEWAYS)
