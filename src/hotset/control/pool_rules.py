"""What a pool takes: which workers, which tenants, and when a new version."""

from collections.abc import Iterator

from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.fleet import DEFAULT_POOL
from hotset.core.ids import PoolName, TenantId, VersionRef
from hotset.core.schedules import is_open
from hotset.registry.lifecycle import SERVING_STATES
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import PoolRow, VersionRow, WorkerRow


def need_pool(catalogue: Catalogue, pool: PoolName) -> PoolRow:
    """Return the pool.

    Raises:
        NotFoundError: no such pool was added.
    """
    row = catalogue.pools.get(pool)
    if row is None:
        raise NotFoundError(f"There is no pool {pool!r}; see `hotset pool list`.", param="pool")
    return row


def check_suits(catalogue: Catalogue, worker: WorkerRow, pool: PoolName) -> None:
    """Pass if the worker may be in the pool.

    Raises:
        NotFoundError: there is no such pool.
        ConflictError: it serves another base, or its slots take too low a rank.
    """
    if pool == DEFAULT_POOL:
        return
    row = need_pool(catalogue, pool)
    if row.base != worker.facts.base:
        raise ConflictError(f"Worker {worker.facts.worker!r} serves another base than pool {pool!r}.", param="worker")
    if worker.facts.rank_class < (row.rank_class or 0):
        raise ConflictError(
            f"Worker {worker.facts.worker!r} takes ranks up to {worker.facts.rank_class}, "
            f"and pool {pool!r} needs {row.rank_class}.",
            param="worker",
        )


def check_takes(catalogue: Catalogue, pool: PoolRow, tenant: TenantId) -> None:
    """Pass if the tenant may be in the pool.

    Raises:
        ConflictError: it is dedicated to another, or takes no rank that the tenant's versions have.
    """
    others = [each for each in tenants_in(catalogue, pool.pool) if each != tenant]
    if pool.kind == "dedicated" and others:
        raise ConflictError(f"Pool {pool.pool!r} is dedicated to {others[0]!r}.", param="tenant")
    too_high = next(_of_higher_rank(catalogue, pool, tenant), None) if pool.rank_class is not None else None
    if too_high is not None:
        raise ConflictError(
            f"Pool {pool.pool!r} takes ranks up to {pool.rank_class}; {too_high} of {tenant!r} is of a higher one.",
            param="tenant",
        )


def tenants_in(catalogue: Catalogue, pool: PoolName) -> list[TenantId]:
    """Return the tenants that are assigned to the pool, by name."""
    return [tenant for (tenant, _), name in catalogue.pools.tenants().items() if name == pool]


def check_may_roll_out(catalogue: Catalogue, version: VersionRow, now_s: float) -> None:
    """Pass if a version may begin to serve now, wherever tenants may call its adapter.

    Raises:
        ConflictError: rollouts are frozen, or one of those tenants' pools takes no version of its rank, or no new ones
            at this time.
    """
    if catalogue.is_frozen():
        raise ConflictError("Rollouts are frozen: hotset unfreeze.")
    callers = {
        grant.tenant
        for grant in catalogue.grants.to_adapters_of(version.ref.adapter.owner)
        if grant.adapter == version.ref.adapter
    }
    pools = {
        pool for (tenant, base), pool in catalogue.pools.tenants().items() if tenant in callers and base == version.base
    }
    for row in (row for row in catalogue.pools.all() if row.pool in pools):
        if row.rank_class is not None and version.manifest.rank_max > row.rank_class:
            raise ConflictError(
                f"Pool {row.pool!r} takes ranks up to {row.rank_class}; {version.ref} is of rank "
                f"{version.manifest.rank_max} and would have no home there: assign its tenants to another pool first."
            )
        if row.release_schedule is not None and not is_open(row.release_schedule, now_s):
            raise ConflictError(
                f"Pool {row.pool!r} takes new versions {row.release_schedule} UTC only; `hotset pool set` changes that."
            )


def _of_higher_rank(catalogue: Catalogue, pool: PoolRow, tenant: TenantId) -> Iterator[VersionRef]:
    """Yield the versions that the tenant may call and that the pool's rank class does not take."""
    granted = {grant.adapter for grant in catalogue.grants.all(tenant) if grant.adapter is not None}
    for row in catalogue.versions.in_states(*sorted(SERVING_STATES)):
        if row.base == pool.base and row.ref.adapter in granted and row.manifest.rank_max > (pool.rank_class or 0):
            yield row.ref
