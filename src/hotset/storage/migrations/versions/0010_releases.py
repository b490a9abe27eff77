"""How often digests were released from quarantine. Releases before this are not counted: nobody suspects by them."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLE = "CREATE TABLE releases (digest TEXT NOT NULL PRIMARY KEY, num_releases INTEGER NOT NULL)"


def upgrade() -> None:
    op.execute(TABLE)
