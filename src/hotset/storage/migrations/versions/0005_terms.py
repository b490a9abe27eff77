"""Terms of tenants and keys, and a default first-token budget of aliases. Those that are there get none."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TERMS = (
    "requests_per_minute FLOAT CHECK (requests_per_minute IS NULL OR requests_per_minute > 0)",
    "tokens_per_minute FLOAT CHECK (tokens_per_minute IS NULL OR tokens_per_minute > 0)",
    "requests_in_flight_max INTEGER CHECK (requests_in_flight_max IS NULL OR requests_in_flight_max >= 1)",
)
BUDGET = "first_token_budget_ms INTEGER CHECK (first_token_budget_ms IS NULL OR first_token_budget_ms >= 0)"


def upgrade() -> None:
    for table in ("tenants", "keys"):
        for column in (*TERMS, BUDGET):
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    op.execute(f"ALTER TABLE grants ADD COLUMN {BUDGET}")
