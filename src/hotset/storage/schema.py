"""The database's tables, as SQLAlchemy Core sees them; `migrations/versions` makes them.

What was published never changes: triggers refuse an UPDATE or DELETE of versions, version_files, approvals,
proofs, version_history, purges, bans and audit. A version's state lives in version_states, beside its history.
Times are wall-clock seconds. `*_fold` columns hold a name in lower case, so that two names that differ in case
alone can't both exist. Columns that end in `_json` hold msgspec's JSON of a core value. A job that has ended never
changes until its row goes.
"""

from typing import Any

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

VERSION_KEY = ("owner", "name", "number")


def _version_columns(*, is_key: bool = True) -> tuple[Column[str], Column[str], Column[int]]:
    return (
        Column("owner", Text, primary_key=is_key, nullable=False),
        Column("name", Text, primary_key=is_key, nullable=False),
        Column("number", Integer, primary_key=is_key, autoincrement=False, nullable=False),
    )


def _of_version() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(VERSION_KEY, [f"versions.{column}" for column in VERSION_KEY])


def _terms_columns() -> tuple[Column[Any], ...]:
    return (
        Column("requests_per_minute", Float),
        Column("tokens_per_minute", Float),
        Column("requests_in_flight_max", Integer),
        Column("first_token_budget_ms", Integer),
    )


SETTINGS = Table("settings", METADATA, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

BASES = Table(
    "bases",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("name_fold", Text, nullable=False, unique=True),
    Column("folder", Text, nullable=False),
    Column("base_json", Text, nullable=False),
    Column("created_at_s", Float, nullable=False),
)

TENANTS = Table(
    "tenants",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("created_at_s", Float, nullable=False),
    Column("reserve_slots", Integer, nullable=False, server_default="0"),
    Column("limit_slots", Integer),
    Column("loads_per_minute", Float),
    *_terms_columns(),
    Column("allows_jobs", Integer, nullable=False, server_default="1"),
    Column("reserve_bytes", Integer, nullable=False, server_default="0"),
    Column("limit_bytes", Integer),
)

KEYS = Table(
    "keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.tenant"), nullable=False),
    Column("token_sha256", Text, nullable=False, unique=True),
    Column("label", Text, nullable=False),
    Column("aliases_json", Text),
    Column("created_at_s", Float, nullable=False),
    Column("expires_at_s", Float),
    Column("revoked_at_s", Float),
    *_terms_columns(),
)

OPERATORS = Table(
    "operators",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("token_sha256", Text, nullable=False, unique=True),
    Column("roles_json", Text, nullable=False),
    Column("created_at_s", Float, nullable=False),
    Column("revoked_at_s", Float),
)

ADAPTERS = Table(
    "adapters",
    METADATA,
    Column("owner", Text, ForeignKey("tenants.tenant"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("name_fold", Text, nullable=False),
    Column("created_at_s", Float, nullable=False),
    UniqueConstraint("owner", "name_fold"),
)

GRANTS = Table(
    "grants",
    METADATA,
    Column("tenant", Text, ForeignKey("tenants.tenant"), primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("alias_fold", Text, nullable=False),
    Column("adapter_owner", Text),
    Column("adapter_name", Text),
    Column("base", Text, ForeignKey("bases.digest")),
    Column("created_at_s", Float, nullable=False),
    Column("first_token_budget_ms", Integer),
    UniqueConstraint("tenant", "alias_fold"),
    ForeignKeyConstraint(["adapter_owner", "adapter_name"], ["adapters.owner", "adapters.name"]),
)

VERSIONS = Table(
    "versions",
    METADATA,
    *_version_columns(),
    Column("base", Text, ForeignKey("bases.digest"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("manifest_json", Text, nullable=False),
    Column("publisher", Text, nullable=False),
    Column("created_at_s", Float, nullable=False),
    ForeignKeyConstraint(["owner", "name"], ["adapters.owner", "adapters.name"]),
)

VERSION_FILES = Table(
    "version_files",
    METADATA,
    *_version_columns(),
    Column("file", Text, primary_key=True),
    Column("digest", Text, nullable=False, index=True),
    Column("size_bytes", Integer, nullable=False),
    _of_version(),
)

VERSION_STATES = Table(
    "version_states", METADATA, *_version_columns(), Column("state", Text, nullable=False), _of_version()
)

VERSION_HISTORY = Table(
    "version_history",
    METADATA,
    Column("id", Integer, primary_key=True),
    *_version_columns(is_key=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at_s", Float, nullable=False),
    _of_version(),
)

PROOFS = Table(
    "proofs",
    METADATA,
    Column("id", Integer, primary_key=True),
    *_version_columns(is_key=False),
    Column("engine", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("hardware_class", Text, nullable=False),
    Column("fingerprint_json", Text, nullable=False),
    Column("at_s", Float, nullable=False),
    _of_version(),
)

APPROVALS = Table(
    "approvals",
    METADATA,
    *_version_columns(),
    Column("reviewer", Text, nullable=False),
    Column("approval_json", Text, nullable=False),
    Column("at_s", Float, nullable=False),
    _of_version(),
)

PURGES = Table("purges", METADATA, *_version_columns(), Column("at_s", Float, nullable=False), _of_version())

BANS = Table(
    "bans",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at_s", Float, nullable=False),
)

QUARANTINES = Table(
    "quarantines",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at_s", Float, nullable=False),
)

RELEASES = Table(
    "releases",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("num_releases", Integer, nullable=False),
)

CUTS = Table(
    "cuts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("withdrawal_json", Text, nullable=False),
    Column("at_s", Float, nullable=False),
)

USAGE = Table(
    "usage",
    METADATA,
    Column("hour_s", Integer, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("adapter", Text, primary_key=True),
    Column("requests", Integer, nullable=False),
    Column("refused", Integer, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("loads", Integer, nullable=False),
    Column("load_seconds", Float, nullable=False),
    Column("slot_seconds", Float, nullable=False),
)

USAGE_STREAMS = Table(
    "usage_streams",
    METADATA,
    Column("role", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("at_s", Float, nullable=False),
)

GATEWAYS = Table(
    "gateways",
    METADATA,
    Column("gateway", Text, primary_key=True),
    Column("registered_at_s", Float, nullable=False),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at_s", Float, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details_json", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

POOLS = Table(
    "pools",
    METADATA,
    Column("pool", Text, primary_key=True),
    Column("base", Text, ForeignKey("bases.digest"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("rank_class", Integer),
    Column("release_schedule", Text),
    Column("created_at_s", Float, nullable=False),
)

POOL_TENANTS = Table(
    "pool_tenants",
    METADATA,
    Column("tenant", Text, ForeignKey("tenants.tenant"), primary_key=True),
    Column("base", Text, ForeignKey("bases.digest"), primary_key=True),
    Column("pool", Text, ForeignKey("pools.pool"), nullable=False),
)

WORKERS = Table(
    "workers",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("facts_json", Text, nullable=False),
    Column("pool", Text),
    Column("state", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("is_lost", Integer, nullable=False),
    Column("registered_at_s", Float, nullable=False),
)

HOMES = Table(
    "homes", METADATA, Column("version", Text, primary_key=True), Column("workers_json", Text, nullable=False)
)

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.tenant"), nullable=False),
    Column("key", Text, nullable=False),
    Column("key_sha256", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("idempotency_sha256", Text),
    Column("epoch", Integer, nullable=False),
    Column("created_at_s", Float, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before_s", Float, nullable=False),
    Column("lease_until_s", Float),
    Column("expires_at_s", Float, nullable=False),
    Column("ended_at_s", Float),
    Column("code", Text),
    Column("num_bytes", Integer, nullable=False),
    Column("sealed_body", LargeBinary, nullable=False),
    Column("sealed_result", LargeBinary),
    UniqueConstraint("tenant", "idempotency_sha256"),
    Index("ix_jobs_state", "state", "not_before_s"),
    Index("ix_jobs_tenant", "tenant", "created_at_s"),
    Index("ix_jobs_expires", "expires_at_s"),
)
