"""The numbered routing state that control publishes and gateways and agents apply whole.

A snapshot is immutable. Holders swap it by one assignment, so a request sees one epoch or the next, never a mix.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hotset.core.base import BaseVersion
from hotset.core.fleet import DEFAULT_POOL, PoolEntry, WorkerEntry
from hotset.core.ids import AdapterId, Alias, BaseName, Digest, EngineName, KeyId, PoolName, Route, TenantId, WorkerId
from hotset.core.ports import Withdrawal
from hotset.core.quotas import Quota
from hotset.core.terms import DEFAULT_TERMS, Terms
from hotset.core.versions import VersionRecord


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A live API key; revoked ones are not in the snapshot."""

    key: KeyId
    tenant: TenantId
    #: Wall-clock seconds; None never expires.
    expires_at_s: float | None = None
    #: Aliases this key may name; None is all of the tenant's.
    aliases: frozenset[Alias] | None = None
    #: Beside its tenant's; whichever is the tighter counts.
    terms: Terms = DEFAULT_TERMS


@dataclass(frozen=True, slots=True)
class AliasEntry:
    """What one tenant's alias stands for at this epoch."""

    alias: Alias
    #: The active version's route, or the base's; None while an adapter has no active version.
    active: Route | None
    #: Versions that ``alias@N`` may name (canary, active, standby), by number.
    numbered: Mapping[int, Route] = field(default_factory=dict[int, Route])
    base_name: BaseName | None = None
    adapter: AdapterId | None = None
    #: Wall-clock seconds, for display.
    created_at_s: float = 0.0
    #: First-token budget of requests that name none, in milliseconds; 0 sets none, None: the tenant's default.
    first_token_budget_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A withdrawal that ends what runs: every covered request that was bound under an older epoch."""

    #: Of the first snapshot without what was withdrawn.
    epoch: int
    withdrawal: Withdrawal


@dataclass(frozen=True, slots=True)
class RoutingSnapshot:
    """Everything needed to authenticate, resolve and load without asking control."""

    epoch: int = 0
    #: Hex SHA-256 of the whole token to its key.
    keys: Mapping[str, KeyEntry] = field(default_factory=dict[str, KeyEntry])
    #: Tenants that may call; suspended and removed ones are not in it.
    tenants: frozenset[TenantId] = frozenset()
    #: Quotas of such tenants; one without an entry has `DEFAULT_QUOTA`.
    quotas: Mapping[TenantId, Quota] = field(default_factory=dict[TenantId, Quota])
    #: Terms of such tenants; one without an entry has `DEFAULT_TERMS`.
    terms: Mapping[TenantId, Terms] = field(default_factory=dict[TenantId, Terms])
    #: Gateways that live, among which terms are divided.
    num_gateways: int = 1
    aliases: Mapping[tuple[TenantId, Alias], AliasEntry] = field(
        default_factory=dict[tuple[TenantId, Alias], AliasEntry]
    )
    #: Versions that may be loaded, each with the approval that says so.
    versions: Mapping[EngineName, VersionRecord] = field(default_factory=dict[EngineName, VersionRecord])
    #: How often the bytes of such a version were released from quarantine; one without an entry never was.
    releases: Mapping[EngineName, int] = field(default_factory=dict[EngineName, int])
    bases: Mapping[Digest, BaseVersion] = field(default_factory=dict[Digest, BaseVersion])
    #: Workers that control holds for live; none where one process serves each base by an agent of its own.
    workers: Mapping[WorkerId, WorkerEntry] = field(default_factory=dict[WorkerId, WorkerEntry])
    pools: Mapping[PoolName, PoolEntry] = field(default_factory=dict[PoolName, PoolEntry])
    #: The pool of each tenant that is assigned to one, by base; the others are in `DEFAULT_POOL`.
    tenant_pools: Mapping[tuple[TenantId, Digest], PoolName] = field(
        default_factory=dict[tuple[TenantId, Digest], PoolName]
    )
    #: Workers where a version is meant to be hot or warm, the likeliest first, of all pools together.
    homes: Mapping[EngineName, tuple[WorkerId, ...]] = field(default_factory=dict[EngineName, tuple[WorkerId, ...]])
    #: An operator's freeze: no loads, no evictions, no rollouts.
    is_frozen: bool = False
    #: Of the last hour, so that a gateway which was away hears of them by whatever snapshot it gets next.
    cuts: tuple[Cut, ...] = ()
    #: Of the tenants that may call, those whose requests are never accepted as jobs.
    without_jobs: frozenset[TenantId] = frozenset()

    def pool_of(self, tenant: TenantId, base: Digest) -> PoolName:
        """Return the pool whose workers serve this tenant's requests over this base."""
        return self.tenant_pools.get((tenant, base), DEFAULT_POOL)


class SnapshotHolder(Protocol):
    """Something that applies snapshots: a gateway, an agent."""

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Use this snapshot from now on; at once, and harmless when repeated. Older epochs are ignored."""
        ...
