"""What the admin API takes: Pydantic models, from which its OpenAPI document is made. Unknown fields are refused."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

ShortText = Annotated[str, Field(max_length=256)]


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Nothing(Body):
    """An empty object."""


class CutBody(Body):
    """Whether to end what runs as well."""

    cut: bool = False


class OperatorBody(Body):
    """A new operator token."""

    name: ShortText
    roles: Annotated[list[ShortText], Field(min_length=1, max_length=8)]


class BaseBody(Body):
    """A base model's folder on the server."""

    folder: Annotated[str, Field(min_length=1, max_length=4096)]
    name: ShortText
    synonyms: Annotated[list[ShortText], Field(max_length=64)] = []


class TenantBody(Body):
    """A new tenant."""

    tenant: ShortText


class QuotaBody(Body):
    """What is to change of a tenant's quota: a field that is left out stays, null is the default."""

    reserve_slots: int | None = None
    limit_slots: int | None = None
    loads_per_minute: float | None = None
    reserve_bytes: int | None = None
    limit_bytes: int | None = None


class TermsBody(Body):
    """What is to change of terms: a field that is left out stays, null is the default."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    requests_in_flight_max: int | None = None
    first_token_budget_ms: int | None = None


class AliasTermsBody(Body):
    """An alias's default first-token budget; null leaves it to the tenant's terms."""

    first_token_budget_ms: int | None


class AllowJobsBody(Body):
    """Whether a tenant's requests may be accepted as jobs."""

    allowed: bool


class KeyBody(Body):
    """A new API key."""

    tenant: ShortText
    expires_in_s: float | None = None
    aliases: Annotated[list[ShortText], Field(max_length=256)] | None = None
    label: ShortText = ""
    terms: TermsBody = TermsBody()


class GrantBody(Body):
    """A new alias; exactly one of `adapter` and `base`."""

    tenant: ShortText
    alias: ShortText | None = None
    adapter: ShortText | None = None
    base: ShortText | None = None
    first_token_budget_ms: int | None = None


class PoolBody(Body):
    """A new pool."""

    pool: ShortText
    base: ShortText
    kind: Literal["shared", "dedicated"] = "shared"
    rank_class: int | None = None
    release_schedule: ShortText | None = None


class AssignBody(Body):
    """Who is to be in a pool: exactly one of `tenant` and `worker`; `base` says which base's default pool."""

    tenant: ShortText | None = None
    worker: ShortText | None = None
    base: ShortText | None = None


class ScheduleBody(Body):
    """When new versions may come to a pool; null: at any time."""

    release_schedule: ShortText | None


class SubmissionBody(Body):
    """What to verify or publish; exactly one of `upload` and `folder`, the latter on the Unix socket only."""

    upload: ShortText | None = None
    folder: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    base: ShortText
    rank_max: Annotated[int, Field(ge=1, le=4096)] | None = None
    #: ``ignore_shipped_tokenizer``, ``other_base``; those that were needed are kept with the version.
    overrides: Annotated[list[ShortText], Field(max_length=8)] = []
    #: Names of files in the publisher's folder that were not uploaded; they only make a refusal's message better.
    ignored: Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=1000)] = []


class ApproveBody(Body):
    """How to approve."""

    accept_unprovable: bool = False


class ReasonBody(Body):
    """Why; kept in the audit log."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


class QuarantineBody(ReasonBody):
    """Why a version is held back, and whether to end what runs on it."""

    cut: bool = False
