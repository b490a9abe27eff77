"""The lists of hotset.yaml as Pydantic models: which bases, tenants, pools, adapters and grants are to be there."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from hotset.cli.sizes import read_size
from hotset.core.errors import InvalidNameError, InvalidRequestError
from hotset.core.fleet import DEFAULT_POOL, PoolKind
from hotset.core.ids import AdapterId, parse_alias, parse_base_name, parse_pool, parse_tenant
from hotset.core.quotas import BOUNDS as QUOTA_BOUNDS
from hotset.core.quotas import DEFAULT_QUOTA, QuotaChange, change_quota
from hotset.core.schedules import parse_schedule
from hotset.core.terms import BOUNDS as TERMS_BOUNDS
from hotset.core.terms import DEFAULT_TERMS, TermsChange, change_terms
from hotset.registry.verify import OVERRIDES


class Section(BaseModel):
    """A mapping of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def named(parse: Callable[[str], Any]) -> AfterValidator:
    """Return a validator that keeps the text and says in our words what is wrong with a name."""

    def check(text: str) -> str:
        try:
            parse(text)
        except InvalidNameError as error:
            raise ValueError(error.message) from error
        return text

    return AfterValidator(check)


def check_folder(folder: Path, context: ValidationInfo) -> Path:
    """Make a path absolute, as seen from the file's own folder, and see that it is a folder."""
    root: Path = (context.context or {}).get("root", Path())
    absolute = (root / folder.expanduser()).absolute()
    if not absolute.is_dir():
        raise ValueError(f"there is no folder {absolute}")
    return absolute


def check_schedule(text: str) -> str:
    """See that a text is a release schedule."""
    try:
        parse_schedule(text)
    except InvalidRequestError as error:
        raise ValueError(error.message) from error
    return text


Tenant = Annotated[str, named(parse_tenant)]
AdapterName = Annotated[str, named(AdapterId.parse)]
BaseNameText = Annotated[str, named(parse_base_name)]
AliasText = Annotated[str, named(parse_alias)]
Folder = Annotated[Path, AfterValidator(check_folder)]
#: Bytes, as a number or as a text such as ``512MiB``.
Size = Annotated[int, BeforeValidator(read_size)]


class BaseEntry(Section):
    """A base model to register."""

    name: BaseNameText
    folder: Folder
    synonyms: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = ()


class TenantEntry(Section):
    """A tenant and, where given, its quota and its terms; the name alone will do."""

    tenant: Tenant
    reserve_slots: int | None = None
    limit_slots: int | None = None
    loads_per_minute: float | None = None
    reserve_bytes: Size | None = None
    limit_bytes: Size | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    requests_in_flight_max: int | None = None
    first_token_budget_ms: int | None = None

    @property
    def quota(self) -> QuotaChange:
        """The parts of its quota that the file names."""
        return cast("QuotaChange", self.model_dump(exclude_unset=True, include=set(QUOTA_BOUNDS)))

    @property
    def terms(self) -> TermsChange:
        """The parts of its terms that the file names."""
        return cast("TermsChange", self.model_dump(exclude_unset=True, include=set(TERMS_BOUNDS)))

    @model_validator(mode="before")
    @classmethod
    def _take_name(cls, entry: Any) -> Any:
        if not isinstance(entry, str):
            return entry
        # Checked here, so that a mistake is told of the entry itself and not of a key that nobody wrote.
        try:
            return {"tenant": parse_tenant(entry)}
        except InvalidNameError as error:
            raise ValueError(error.message) from error

    @model_validator(mode="after")
    def _check_numbers(self) -> "TenantEntry":
        try:
            change_quota(DEFAULT_QUOTA, self.quota)
            change_terms(DEFAULT_TERMS, self.terms)
        except InvalidRequestError as error:
            raise ValueError(error.message) from error
        return self


def check_distinct(entries: tuple[TenantEntry, ...]) -> tuple[TenantEntry, ...]:
    """See that no tenant stands twice: two quotas of one tenant would take turns."""
    names = [entry.tenant for entry in entries]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ValueError(f"tenant {doubled!r} stands twice")
    return entries


class AdapterEntry(Section):
    """An adapter whose folder's bytes are to be served."""

    adapter: AdapterName
    folder: Folder
    base: BaseNameText
    overrides: frozenset[str] = frozenset()

    @model_validator(mode="after")
    def _check_overrides(self) -> "AdapterEntry":
        unknown = sorted(self.overrides - OVERRIDES)
        if unknown:
            raise ValueError(f"unknown override {unknown[0]!r}; there are {', '.join(sorted(OVERRIDES))}")
        return self


class GrantEntry(Section):
    """An alias of a tenant for an adapter or a base."""

    tenant: Tenant
    alias: AliasText | None = None
    adapter: AdapterName | None = None
    base: BaseNameText | None = None

    @model_validator(mode="after")
    def _check_target(self) -> "GrantEntry":
        if (self.adapter is None) == (self.base is None):
            raise ValueError("name either an adapter or a base")
        return self


class PoolEntry(Section):
    """A pool and the tenants that its workers serve."""

    pool: Annotated[str, named(parse_pool)]
    base: BaseNameText
    kind: PoolKind = "shared"
    rank_class: Annotated[int, Field(ge=1, le=4096)] | None = None
    release_schedule: Annotated[str, AfterValidator(check_schedule)] | None = None
    tenants: tuple[Tenant, ...] = ()

    @model_validator(mode="after")
    def _check_kind(self) -> "PoolEntry":
        if self.pool == DEFAULT_POOL:
            raise ValueError("every base has the pool 'default'; it is not declared")
        if self.kind == "dedicated" and len(self.tenants) > 1:
            raise ValueError("a dedicated pool is for one tenant")
        return self


def check_pools(entries: tuple[PoolEntry, ...]) -> tuple[PoolEntry, ...]:
    """See that no pool stands twice, and no tenant in two pools of one base: they would take turns."""
    names = [f"pool {entry.pool!r}" for entry in entries]
    names += [f"tenant {tenant!r} of base {entry.base!r}" for entry in entries for tenant in entry.tenants]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ValueError(f"{doubled} stands twice")
    return entries


class Declarations(Section):
    """The lists of hotset.yaml: what is to be there."""

    bases: tuple[BaseEntry, ...] = ()
    tenants: Annotated[tuple[TenantEntry, ...], AfterValidator(check_distinct)] = ()
    pools: Annotated[tuple[PoolEntry, ...], AfterValidator(check_pools)] = ()
    adapters: tuple[AdapterEntry, ...] = ()
    grants: tuple[GrantEntry, ...] = ()
