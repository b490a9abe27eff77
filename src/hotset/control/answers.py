"""What the admin API answers: Pydantic models, from which its OpenAPI document is made. None holds a token's hash.

Here are those about the installation and its tenants; the others are beside the routes that they belong to.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True)


class StatusAnswer(Answer):
    """The installation at a glance."""

    version: str
    epoch: int
    one_person: bool
    reviewer_key: str
    num_bases: int
    num_tenants: int
    num_adapters: int
    num_keys: int
    is_frozen: bool


class OperatorAnswer(Answer):
    """An operator, without the token."""

    id: str
    name: str
    roles: list[str]
    created_at_s: float
    revoked_at_s: float | None


class IssuedOperatorAnswer(Answer):
    """An operator with the token, shown this once."""

    operator: OperatorAnswer
    token: str


class OperatorsAnswer(Answer):
    """Every operator."""

    operators: list[OperatorAnswer]


class FreedAnswer(Answer):
    """What garbage collection removed."""

    num_blobs: int
    bytes: int
    num_staging: int


class StoreAnswer(Answer):
    """What hashing the whole store found."""

    num_blobs: int
    bytes: int
    damaged: list[str]
    missing: list[str]


class AuditEntryAnswer(Answer):
    """One operator act."""

    number: int
    at_s: float
    actor: str
    action: str
    subject: str
    details: dict[str, Any]
    hash: str


class AuditAnswer(Answer):
    """A page of the audit log."""

    entries: list[AuditEntryAnswer]


class AuditVerdictAnswer(Answer):
    """Whether the audit log's chain holds."""

    num_entries: int
    is_intact: bool
    first_broken: int | None


class BaseAnswer(Answer):
    """A base version."""

    name: str
    digest: str
    synonyms: list[str]
    folder: str
    family: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    context_len: int
    num_files: int
    created_at_s: float


class BasesAnswer(Answer):
    """Every base version."""

    bases: list[BaseAnswer]


class TermsAnswer(Answer):
    """What a tenant or a key may ask of the gateways; null: no limit, no default."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    requests_in_flight_max: int | None
    first_token_budget_ms: int | None


class TenantAnswer(Answer):
    """A tenant and what it has."""

    tenant: str
    state: Literal["active", "suspended", "removed"]
    created_at_s: float
    num_keys: int
    num_grants: int
    num_adapters: int
    reserve_slots: int
    limit_slots: int | None
    loads_per_minute: float | None
    reserve_bytes: int
    limit_bytes: int | None
    terms: TermsAnswer
    allows_jobs: bool


class TenantsAnswer(Answer):
    """Every tenant."""

    tenants: list[TenantAnswer]


class KeyAnswer(Answer):
    """An API key, without the token."""

    id: str
    tenant: str
    label: str
    aliases: list[str] | None
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None
    terms: TermsAnswer


class IssuedKeyAnswer(Answer):
    """An API key with the token, shown this once."""

    key: KeyAnswer
    token: str


class KeysAnswer(Answer):
    """Every API key."""

    keys: list[KeyAnswer]


class GrantAnswer(Answer):
    """An alias and what it stands for."""

    tenant: str
    alias: str
    adapter: str | None
    base: str | None
    created_at_s: float
    first_token_budget_ms: int | None


class GrantsAnswer(Answer):
    """Every alias."""

    grants: list[GrantAnswer]


class ProblemAnswer(Answer):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    param: str | None = None
    reason: str | None = None
