"""What the catalogue returns: one frozen value a row, in the words of the core."""

from dataclasses import dataclass
from typing import Literal

from hotset.admission.job_life import JobLife
from hotset.core.base import BaseVersion
from hotset.core.fleet import DEFAULT_POOL, PoolKind, WorkerFacts, WorkerState
from hotset.core.ids import AdapterId, Alias, Digest, JobId, KeyId, PoolName, TenantId, VersionRef
from hotset.core.quotas import DEFAULT_QUOTA, Quota
from hotset.core.terms import DEFAULT_TERMS, Terms
from hotset.core.versions import Approval, Manifest, VersionRecord

TenantState = Literal["active", "suspended", "removed"]


@dataclass(frozen=True, slots=True)
class BaseRow:
    """A registered base version and the folder where its files lie."""

    base: BaseVersion
    folder: str
    created_at_s: float


@dataclass(frozen=True, slots=True)
class TenantRow:
    """A tenant; one that was removed keeps its name for ever."""

    tenant: TenantId
    state: TenantState
    created_at_s: float
    quota: Quota = DEFAULT_QUOTA
    terms: Terms = DEFAULT_TERMS
    #: Whether its requests may be accepted as jobs.
    allows_jobs: bool = True


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An API key without its token, of which only the SHA-256 exists."""

    key: KeyId
    tenant: TenantId
    token_sha256: str
    label: str
    #: None: every alias of the tenant.
    aliases: frozenset[Alias] | None
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None
    terms: Terms = DEFAULT_TERMS


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator token without its text."""

    operator: str
    name: str
    token_sha256: str
    roles: frozenset[str]
    created_at_s: float
    revoked_at_s: float | None


@dataclass(frozen=True, slots=True)
class GrantRow:
    """One alias of one tenant, and what it stands for: an adapter or a base, never both."""

    tenant: TenantId
    alias: Alias
    adapter: AdapterId | None
    base: Digest | None
    created_at_s: float
    first_token_budget_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AdapterRow:
    """An adapter: a name of one owner under which versions are published."""

    adapter: AdapterId
    created_at_s: float


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version with everything that decides whether it may be served."""

    ref: VersionRef
    base: Digest
    digest: Digest
    manifest: Manifest
    publisher: str
    created_at_s: float
    #: A `registry.lifecycle.VersionState` value.
    state: str
    approval: Approval | None
    reviewer: str | None
    approved_at_s: float | None
    purged_at_s: float | None
    is_banned: bool
    #: Held back until a reviewer releases the bytes; beside its state.
    is_quarantined: bool = False
    #: How often its bytes were released from quarantine.
    num_releases: int = 0

    @property
    def record(self) -> VersionRecord:
        """The version as agents and `check_approval` take it."""
        return VersionRecord(
            owner=self.ref.adapter.owner,
            name=self.ref.adapter.name,
            number=self.ref.number,
            base=self.base,
            digest=self.digest,
            manifest=self.manifest,
            approval=self.approval,
        )


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One step of a version's life."""

    state: str
    reason: str
    actor: str
    at_s: float


@dataclass(frozen=True, slots=True)
class ProofRow:
    """One proof of a version on one engine, dtype and hardware class."""

    engine: str
    dtype: str
    hardware_class: str
    #: JSON of a `registry.fingerprint.Fingerprint`.
    fingerprint_json: str
    at_s: float


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool that was added; the default one has no row."""

    pool: PoolName
    base: Digest
    kind: PoolKind
    rank_class: int | None
    release_schedule: str | None
    created_at_s: float


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that registered, lost or not."""

    facts: WorkerFacts
    #: What an operator said; None: as its own configuration asks.
    assigned_pool: PoolName | None
    state: WorkerState
    fence: int
    is_lost: bool
    registered_at_s: float

    @property
    def pool(self) -> PoolName:
        """The pool that it is in."""
        return self.assigned_pool or self.facts.pool or DEFAULT_POOL


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One operator act. `hash` covers the entry and the hash of the one before it."""

    number: int
    at_s: float
    actor: str
    action: str
    subject: str
    details_json: str
    hash: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job without what was asked and answered."""

    job: JobId
    tenant: TenantId
    key: KeyId
    #: Under which snapshots know the key.
    key_sha256: str
    #: As the client wrote it: ``alias`` or ``alias@N``.
    model: str
    #: Name of the endpoint that it came in by.
    endpoint: str
    #: Of the snapshot under which it was accepted: an older one may not know its key yet, and has no say about it.
    epoch: int
    created_at_s: float
    life: JobLife
    #: Of the error that it ended with.
    code: str | None = None
    #: Of body and result, as sealed.
    num_bytes: int = 0
