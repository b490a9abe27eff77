"""Usage of tenants by adapter and hour, for reports; what was used before is not known."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = """CREATE TABLE usage (
    hour_s INTEGER NOT NULL, tenant TEXT NOT NULL, adapter TEXT NOT NULL,
    requests INTEGER NOT NULL, refused INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    loads INTEGER NOT NULL, load_seconds FLOAT NOT NULL, slot_seconds FLOAT NOT NULL,
    PRIMARY KEY (hour_s, tenant, adapter))"""


def upgrade() -> None:
    op.execute(TABLE)
