"""Commands on pools: which workers serve which tenants; whom a pool takes is in `pool_rules`."""

from hotset.control.actors import Actor
from hotset.control.bases import need_base
from hotset.control.commits import Change, Commits
from hotset.control.pool_rules import check_suits, check_takes, need_pool, tenants_in
from hotset.control.tenants import need_tenant
from hotset.control.workers import need_worker
from hotset.core.errors import ConflictError, InvalidRequestError
from hotset.core.fleet import DEFAULT_POOL, PoolKind
from hotset.core.ids import BaseName, Digest, PoolName, TenantId, WorkerId
from hotset.core.schedules import parse_schedule
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import PoolRow, WorkerRow

_RANK_MAX = 4096


class Pools:
    """Pools: one method a command."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def add(
        self,
        actor: Actor,
        pool: PoolName,
        base: BaseName,
        *,
        kind: PoolKind = "shared",
        rank_class: int | None = None,
        release_schedule: str | None = None,
    ) -> PoolRow:
        """Add a pool without tenants and workers.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such base.
            ConflictError: the name is taken.
            InvalidRequestError: the rank class is out of bounds, or the release schedule is none.
        """
        actor.require("admin")
        if rank_class is not None and not 1 <= rank_class <= _RANK_MAX:
            raise InvalidRequestError(f"rank_class is from 1 to {_RANK_MAX}.", param="rank_class")
        if release_schedule is not None:
            parse_schedule(release_schedule)

        def act(change: Change) -> PoolRow:
            digest = need_base(change.catalogue, base).base.digest
            if pool == DEFAULT_POOL or change.catalogue.pools.get(pool) is not None:
                raise ConflictError(f"There is a pool {pool!r} already; see `hotset pool list`.", param="pool")
            row = PoolRow(pool, digest, kind, rank_class, release_schedule, change.now_s)
            change.catalogue.pools.add(row)
            told = {"kind": kind, "rank_class": rank_class, "release_schedule": release_schedule}
            change.audit("pool.add", pool, base=base, **told)
            return row

        return await self._commits.run(actor, act)

    async def set_schedule(self, actor: Actor, pool: PoolName, release_schedule: str | None) -> PoolRow:
        """Say when new versions may come to the pool; None: at any time.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such pool.
            InvalidRequestError: it is no release schedule.
        """
        actor.require("admin")
        if release_schedule is not None:
            parse_schedule(release_schedule)

        def act(change: Change) -> PoolRow:
            row = need_pool(change.catalogue, pool)
            if row.release_schedule != release_schedule:
                change.catalogue.pools.change_schedule(pool, release_schedule)
                change.audit("pool.schedule", pool, release_schedule=release_schedule)
            return need_pool(change.catalogue, pool)

        return await self._commits.run(actor, act)

    async def assign_tenant(
        self, actor: Actor, pool: PoolName, tenant: TenantId, base: BaseName | None = None
    ) -> PoolRow | None:
        """Serve the tenant's requests over the pool's base by this pool's workers, and by no others.

        Args:
            actor: On whose behalf.
            pool: Where to; the default pool takes the tenant out of any other of `base`.
            tenant: Whom.
            base: Needed with the default pool alone, which every base has.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: no such tenant, pool or base.
            ConflictError: the pool is dedicated to another tenant, or takes no rank that the tenant's versions have.
            InvalidRequestError: `base` is missing, or is not the pool's.
        """
        actor.require("admin")

        def act(change: Change) -> PoolRow | None:
            catalogue = change.catalogue
            need_tenant(catalogue, tenant)
            row, digest = _pool_and_base(catalogue, pool, base)
            if row is not None:
                check_takes(catalogue, row, tenant)
            if catalogue.pools.tenants().get((tenant, digest), DEFAULT_POOL) != pool:
                catalogue.pools.put_tenant(tenant, digest, None if row is None else pool)
                change.audit("pool.assign", pool, tenant=tenant, base=digest)
            return row

        return await self._commits.run(actor, act)

    async def assign_worker(self, actor: Actor, pool: PoolName, worker: WorkerId) -> WorkerRow:
        """Have the worker serve this pool, whatever its own configuration asks for.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: no such worker or pool.
            ConflictError: the worker serves another base, or its slots take too low a rank.
        """
        actor.require("admin")

        def act(change: Change) -> WorkerRow:
            catalogue = change.catalogue
            row = need_worker(catalogue, worker)
            check_suits(catalogue, row, pool)
            if row.pool != pool:
                catalogue.workers.change_pool(worker, pool)
                change.audit("pool.assign", pool, worker=worker)
            return need_worker(catalogue, worker)

        return await self._commits.run(actor, act)

    async def remove(self, actor: Actor, pool: PoolName) -> PoolRow:
        """Remove a pool that has neither tenants nor workers.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such pool.
            ConflictError: there are tenants or workers in it.
        """
        actor.require("admin")

        def act(change: Change) -> PoolRow:
            catalogue = change.catalogue
            row = need_pool(catalogue, pool)
            within = [
                *tenants_in(catalogue, pool),
                *(w.facts.worker for w in catalogue.workers.all() if w.pool == pool),
            ]
            if within:
                listed = ", ".join(within[:5])
                raise ConflictError(f"Pool {pool!r} still has {listed}; assign them elsewhere first.", param="pool")
            catalogue.pools.remove(pool)
            change.audit("pool.remove", pool)
            return row

        return await self._commits.run(actor, act)


def _pool_and_base(catalogue: Catalogue, pool: PoolName, base: BaseName | None) -> tuple[PoolRow | None, Digest]:
    digest = None if base is None else need_base(catalogue, base).base.digest
    if pool != DEFAULT_POOL:
        row = need_pool(catalogue, pool)
        if digest not in (None, row.base):
            raise InvalidRequestError(f"Pool {pool!r} is of another base.", param="base")
        return row, row.base
    if digest is None:
        raise InvalidRequestError("Each base has a default pool: say which base's.", param="base")
    return None, digest
