"""Pools, workers, gateways and homes: who serves whom with what, and where each version is meant to be."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select, update

from hotset.core.fleet import WorkerFacts, WorkerState
from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId
from hotset.storage.rows import PoolRow, WorkerRow
from hotset.storage.schema import GATEWAYS, HOMES, POOL_TENANTS, POOLS, WORKERS


class Pools:
    """Typed reads and writes of pools and the tenants in them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, pool: PoolRow) -> None:
        """Add a pool whose name is free."""
        self._connection.execute(
            insert(POOLS).values(
                pool=pool.pool,
                base=pool.base,
                kind=pool.kind,
                rank_class=pool.rank_class,
                release_schedule=pool.release_schedule,
                created_at_s=pool.created_at_s,
            )
        )

    def remove(self, pool: PoolName) -> None:
        """Remove a pool that has neither tenants nor workers."""
        self._connection.execute(delete(POOLS).where(POOLS.c.pool == pool))

    def change_schedule(self, pool: PoolName, release_schedule: str | None) -> None:
        """Give the pool another release schedule."""
        self._connection.execute(update(POOLS).where(POOLS.c.pool == pool).values(release_schedule=release_schedule))

    def get(self, pool: PoolName) -> PoolRow | None:
        """Return the pool."""
        row = self._connection.execute(select(POOLS).where(POOLS.c.pool == pool)).one_or_none()
        return None if row is None else _pool(row)

    def all(self) -> list[PoolRow]:
        """Return every pool, by name."""
        return [_pool(row) for row in self._connection.execute(select(POOLS).order_by(POOLS.c.pool))]

    def put_tenant(self, tenant: TenantId, base: Digest, pool: PoolName | None) -> None:
        """Put the tenant's requests over this base into a pool, out of any other; None: into the default one."""
        self._connection.execute(
            delete(POOL_TENANTS).where(POOL_TENANTS.c.tenant == tenant, POOL_TENANTS.c.base == base)
        )
        if pool is not None:
            self._connection.execute(insert(POOL_TENANTS).values(tenant=tenant, base=base, pool=pool))

    def remove_tenant(self, tenant: TenantId) -> None:
        """Take the tenant out of every pool."""
        self._connection.execute(delete(POOL_TENANTS).where(POOL_TENANTS.c.tenant == tenant))

    def tenants(self) -> dict[tuple[TenantId, Digest], PoolName]:
        """Return the pool of each tenant that is in one, by base."""
        query = select(POOL_TENANTS).order_by(POOL_TENANTS.c.tenant, POOL_TENANTS.c.base)
        return {(row.tenant, row.base): row.pool for row in self._connection.execute(query)}


class Workers:
    """Typed reads and writes of workers that registered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def register(self, facts: WorkerFacts, fence: int, now_s: float) -> WorkerRow:
        """Record what a worker says of itself, under this fence; what an operator said of it stays."""
        told = {
            "facts_json": msgspec.json.encode(facts).decode(),
            "fence": fence,
            "is_lost": 0,
            "registered_at_s": now_s,
        }
        if self.get(facts.worker) is None:
            self._connection.execute(insert(WORKERS).values(worker=facts.worker, state="serving", **told))
        else:
            self._connection.execute(update(WORKERS).where(WORKERS.c.worker == facts.worker).values(**told))
        row = self.get(facts.worker)
        assert row is not None, "it was just written"
        return row

    def change_state(self, worker: WorkerId, state: WorkerState) -> None:
        """Put the worker into `state`."""
        self._connection.execute(update(WORKERS).where(WORKERS.c.worker == worker).values(state=state))

    def change_pool(self, worker: WorkerId, pool: PoolName) -> None:
        """Put the worker into a pool, the default one or another, whatever its own configuration asks for."""
        self._connection.execute(update(WORKERS).where(WORKERS.c.worker == worker).values(pool=pool))

    def mark_lost(self, worker: WorkerId, *, is_lost: bool) -> None:
        """Record whether the worker is held for lost."""
        self._connection.execute(update(WORKERS).where(WORKERS.c.worker == worker).values(is_lost=int(is_lost)))

    def remove(self, worker: WorkerId) -> None:
        """Forget the worker."""
        self._connection.execute(delete(WORKERS).where(WORKERS.c.worker == worker))

    def get(self, worker: WorkerId) -> WorkerRow | None:
        """Return the worker."""
        row = self._connection.execute(select(WORKERS).where(WORKERS.c.worker == worker)).one_or_none()
        return None if row is None else _worker(row)

    def all(self) -> list[WorkerRow]:
        """Return every worker, lost ones too, by id."""
        return [_worker(row) for row in self._connection.execute(select(WORKERS).order_by(WORKERS.c.worker))]


class Gateways:
    """Typed reads and writes of gateways that registered and did not say that they end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def register(self, gateway: str, now_s: float) -> None:
        """Record that a gateway is there."""
        self.remove(gateway)
        self._connection.execute(insert(GATEWAYS).values(gateway=gateway, registered_at_s=now_s))

    def remove(self, gateway: str) -> bool:
        """Forget a gateway; return whether it was known."""
        return self._connection.execute(delete(GATEWAYS).where(GATEWAYS.c.gateway == gateway)).rowcount > 0

    def all(self) -> list[str]:
        """Return every gateway, by name."""
        return list(self._connection.execute(select(GATEWAYS.c.gateway).order_by(GATEWAYS.c.gateway)).scalars())


class Homes:
    """Typed reads and writes of the homes that were published last."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def replace(self, homes: Mapping[EngineName, tuple[WorkerId, ...]]) -> None:
        """Put these in the place of all that are there."""
        self._connection.execute(delete(HOMES))
        rows = [
            {"version": version, "workers_json": msgspec.json.encode(workers).decode()}
            for version, workers in homes.items()
        ]
        if rows:
            self._connection.execute(insert(HOMES), rows)

    def all(self) -> dict[EngineName, tuple[WorkerId, ...]]:
        """Return the homes of every version that has any, the likeliest first."""
        found = self._connection.execute(select(HOMES).order_by(HOMES.c.version))
        return {row.version: msgspec.json.decode(row.workers_json, type=tuple[WorkerId, ...]) for row in found}


def _pool(row: Row[tuple[object, ...]]) -> PoolRow:
    return PoolRow(
        pool=row.pool,
        base=row.base,
        kind=row.kind,
        rank_class=row.rank_class,
        release_schedule=row.release_schedule,
        created_at_s=row.created_at_s,
    )


def _worker(row: Row[tuple[object, ...]]) -> WorkerRow:
    return WorkerRow(
        facts=msgspec.json.decode(row.facts_json, type=WorkerFacts),
        assigned_pool=row.pool,
        state=row.state,
        fence=row.fence,
        is_lost=bool(row.is_lost),
        registered_at_s=row.registered_at_s,
    )
