"""Routing snapshots from catalogue rows: a pure function, so that what is routable is decided in one place.

In a snapshot are: keys that are not revoked, of tenants that may call (expiry travels along: the gateway's
clock decides); aliases, quotas and terms of those tenants; versions that are active, standby or canary, approved, and
of a digest that is neither banned nor quarantined; workers that are not held for lost; pools, homes, the freeze and
recent cuts as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hotset.core.fleet import PoolEntry, WorkerEntry
from hotset.core.ids import AdapterId, Alias, Digest, EngineName, PoolName, Route, TenantId, WorkerId, engine_name
from hotset.core.quotas import DEFAULT_QUOTA
from hotset.core.snapshot import AliasEntry, Cut, KeyEntry, RoutingSnapshot
from hotset.core.terms import DEFAULT_TERMS
from hotset.registry.lifecycle import SERVING_STATES, VersionState
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import BaseRow, GrantRow, KeyRow, PoolRow, TenantRow, VersionRow, WorkerRow

#: In one snapshot; a gateway that is linked gets the snapshot of each.
_CUTS_MAX = 256


@dataclass(frozen=True, slots=True)
class RoutingRows:
    """The catalogue rows that routing depends on, all of one moment."""

    epoch: int
    bases: tuple[BaseRow, ...]
    tenants: tuple[TenantRow, ...]
    keys: tuple[KeyRow, ...]
    grants: tuple[GrantRow, ...]
    versions: tuple[VersionRow, ...]
    pools: tuple[PoolRow, ...] = ()
    tenant_pools: Mapping[tuple[TenantId, Digest], PoolName] = field(
        default_factory=dict[tuple[TenantId, Digest], PoolName]
    )
    workers: tuple[WorkerRow, ...] = ()
    homes: Mapping[EngineName, tuple[WorkerId, ...]] = field(default_factory=dict[EngineName, tuple[WorkerId, ...]])
    is_frozen: bool = False
    cuts: tuple[Cut, ...] = ()


def read_routing_rows(catalogue: Catalogue) -> RoutingRows:
    """Read the rows within the caller's transaction."""
    return RoutingRows(
        epoch=catalogue.epoch(),
        bases=tuple(catalogue.bases.all()),
        tenants=tuple(catalogue.tenants.all()),
        keys=tuple(catalogue.keys.all()),
        grants=tuple(catalogue.grants.all()),
        versions=tuple(catalogue.versions.in_states(*sorted(SERVING_STATES))),
        pools=tuple(catalogue.pools.all()),
        tenant_pools=catalogue.pools.tenants(),
        workers=tuple(catalogue.workers.all()),
        homes=catalogue.homes.all(),
        is_frozen=catalogue.is_frozen(),
        cuts=tuple(catalogue.cuts.newest(_CUTS_MAX)),
    )


def build_snapshot(rows: RoutingRows) -> RoutingSnapshot:
    """Return the routing state that these rows amount to."""
    bases = {row.base.digest: row for row in rows.bases}
    callers: frozenset[TenantId] = frozenset(row.tenant for row in rows.tenants if row.state == VersionState.ACTIVE)
    removed: frozenset[TenantId] = frozenset(row.tenant for row in rows.tenants if row.state == "removed")
    servable = [row for row in rows.versions if _is_servable(row, removed)]
    served = {name: row for row in servable if (name := engine_name(row.record.route)) is not None}
    by_adapter = _aliases_of_adapters(servable, bases)
    return RoutingSnapshot(
        epoch=rows.epoch,
        keys={
            row.token_sha256: _key_entry(row) for row in rows.keys if row.revoked_at_s is None and row.tenant in callers
        },
        tenants=callers,
        quotas={row.tenant: row.quota for row in rows.tenants if row.tenant in callers and row.quota != DEFAULT_QUOTA},
        terms={row.tenant: row.terms for row in rows.tenants if row.tenant in callers and row.terms != DEFAULT_TERMS},
        aliases={
            (grant.tenant, grant.alias): _alias_entry(grant, by_adapter, bases)
            for grant in rows.grants
            if grant.tenant in callers
        },
        versions={name: row.record for name, row in served.items()},
        releases={name: row.num_releases for name, row in served.items() if row.num_releases},
        bases={digest: row.base for digest, row in bases.items()},
        workers={row.facts.worker: _worker_entry(row) for row in rows.workers if not row.is_lost},
        pools={row.pool: _pool_entry(row, rows.tenant_pools) for row in rows.pools},
        tenant_pools=rows.tenant_pools,
        homes=rows.homes,
        is_frozen=rows.is_frozen,
        cuts=rows.cuts,
        without_jobs=frozenset(row.tenant for row in rows.tenants if row.tenant in callers and not row.allows_jobs),
    )


def _is_servable(row: VersionRow, removed: frozenset[TenantId]) -> bool:
    return (
        row.state in SERVING_STATES
        and row.approval is not None
        and row.purged_at_s is None
        and not row.is_banned
        and not row.is_quarantined
        and row.ref.adapter.owner not in removed
    )


def _key_entry(row: KeyRow) -> KeyEntry:
    return KeyEntry(row.key, row.tenant, row.expires_at_s, row.aliases, row.terms)


def _worker_entry(row: WorkerRow) -> WorkerEntry:
    return WorkerEntry(facts=row.facts, pool=row.pool, state=row.state, fence=row.fence)


def _pool_entry(row: PoolRow, tenant_pools: Mapping[tuple[TenantId, Digest], PoolName]) -> PoolEntry:
    return PoolEntry(
        pool=row.pool,
        base=row.base,
        kind=row.kind,
        rank_class=row.rank_class,
        release_schedule=row.release_schedule,
        tenants=tuple(tenant for (tenant, _), pool in tenant_pools.items() if pool == row.pool),
    )


def _aliases_of_adapters(servable: Iterable[VersionRow], bases: dict[Digest, BaseRow]) -> dict[AdapterId, AliasEntry]:
    """Return for each adapter what an alias of it stands for; the alias itself is filled in by the grant."""
    entries: dict[AdapterId, AliasEntry] = {}
    by_adapter: dict[AdapterId, list[VersionRow]] = {}
    for row in servable:
        by_adapter.setdefault(row.ref.adapter, []).append(row)
    for adapter, versions in by_adapter.items():
        active = next((row for row in versions if row.state == VersionState.ACTIVE), None)
        shown = active or versions[-1]
        entries[adapter] = AliasEntry(
            alias=Alias(""),
            active=None if active is None else active.record.route,
            numbered={row.ref.number: row.record.route for row in versions},
            base_name=bases[shown.base].base.name,
            adapter=adapter,
            created_at_s=shown.created_at_s,
        )
    return entries


def _alias_entry(grant: GrantRow, by_adapter: dict[AdapterId, AliasEntry], bases: dict[Digest, BaseRow]) -> AliasEntry:
    if grant.base is not None:
        base = bases[grant.base]
        return AliasEntry(
            alias=grant.alias,
            active=Route(grant.base),
            base_name=base.base.name,
            created_at_s=base.created_at_s,
            first_token_budget_ms=grant.first_token_budget_ms,
        )
    assert grant.adapter is not None, "a grant stands for an adapter or a base"
    entry = by_adapter.get(grant.adapter)
    if entry is None:
        return AliasEntry(grant.alias, active=None, adapter=grant.adapter, created_at_s=grant.created_at_s)
    return replace(entry, alias=grant.alias, first_token_budget_ms=grant.first_token_budget_ms)
