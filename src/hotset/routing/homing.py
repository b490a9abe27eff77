"""What to plan homes for, out of a snapshot and heartbeats: a pure step before `routing.homes` and after it.

Wanted is every version that tenants of a pool may ask for. A worker may be a home while it takes new requests and its
engine serves, or did a moment ago.
"""

from collections.abc import Iterable, Iterator, Mapping

from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId, engine_name
from hotset.core.quotas import DEFAULT_QUOTA
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.placements import HomeWorker, Place, Plan, Wanted
from hotset.routing.reserves import HomesOf, Owed, ReserveGap, find_gaps

Heartbeats = Mapping[WorkerId, Heartbeat]


def callers_of(snapshot: RoutingSnapshot) -> dict[Place, set[TenantId]]:
    """Return who may ask for each version, by pool."""
    callers: dict[Place, set[TenantId]] = {}
    for (tenant, _), entry in snapshot.aliases.items():
        for route in entry.numbered.values():
            name = engine_name(route)
            if name is not None and name in snapshot.versions:
                callers.setdefault((snapshot.pool_of(tenant, route.base), name), set()).add(tenant)
    return callers


def wanted_of(snapshot: RoutingSnapshot, heartbeats: Heartbeats, callers: Iterable[Place]) -> list[Wanted]:
    """Return every version that somebody may ask for, with its requests and whether it is in no slot of its pool.

    Files in a local store hold nobody at home: they are brought to each new home before anybody asks there.
    """
    in_flight: dict[Place, int] = {}
    held: set[Place] = set()
    for worker, heartbeat in heartbeats.items():
        entry = snapshot.workers.get(worker)
        if entry is not None:
            for name, count in heartbeat.in_flight.items():
                in_flight[(entry.pool, name)] = in_flight.get((entry.pool, name), 0) + count
            held.update((entry.pool, name) for name in (*heartbeat.resident, *heartbeat.loading))
    return [
        Wanted(
            pool=place[0],
            version=place[1],
            base=snapshot.versions[place[1]].base,
            rank=snapshot.versions[place[1]].manifest.rank_max,
            num_in_flight=in_flight.get(place, 0),
            is_cold=place not in held,
        )
        for place in callers
    ]


def home_workers(snapshot: RoutingSnapshot, able: Iterable[WorkerId]) -> list[HomeWorker]:
    """Return those of the able workers that take new requests."""
    entries = (snapshot.workers[worker] for worker in able if worker in snapshot.workers)
    return [
        HomeWorker(
            worker=entry.facts.worker,
            base=entry.facts.base,
            pool=entry.pool,
            rank_class=entry.facts.rank_class,
            num_slots=entry.facts.num_slots,
            num_sequences_max=entry.facts.num_sequences_max,
            store_bytes=entry.facts.store_bytes,
        )
        for entry in entries
        if entry.state == "serving" and entry.facts.num_slots > 0
    ]


def gaps_of(
    snapshot: RoutingSnapshot, plan: Plan, callers: Mapping[Place, Iterable[TenantId]], workers: Iterable[HomeWorker]
) -> list[ReserveGap]:
    """Return the reserves that do not hold, now or with one worker lost, pool by pool."""
    by_pool: dict[tuple[Digest, PoolName], list[HomeWorker]] = {}
    for worker in workers:
        by_pool.setdefault((worker.base, worker.pool), []).append(worker)
    gaps: list[ReserveGap] = []
    for (base, pool), there in sorted(by_pool.items()):
        homes = _homes_by_tenant(snapshot, plan, callers, base, pool)
        for owed in _owed(snapshot, there, homes):
            gaps += find_gaps(base, pool, there, owed, homes)
    return gaps


def _owed(
    snapshot: RoutingSnapshot, workers: Iterable[HomeWorker], homes: Mapping[TenantId, HomesOf]
) -> Iterator[Owed]:
    """Yield what these tenants are owed of slots, and of bytes."""
    quotas = {tenant: snapshot.quotas.get(tenant, DEFAULT_QUOTA) for tenant in homes}
    versions = {version for of_tenant in homes.values() for version in of_tenant}
    yield Owed(
        "slots",
        {tenant: quota.reserve_slots for tenant, quota in quotas.items()},
        {worker.worker: worker.num_slots for worker in workers},
        dict.fromkeys(versions, 1),
    )
    yield Owed(
        "bytes",
        {tenant: quota.reserve_bytes for tenant, quota in quotas.items()},
        {worker.worker: worker.store_bytes for worker in workers},
        {version: sum(entry.size_bytes for entry in snapshot.versions[version].manifest.files) for version in versions},
    )


def _homes_by_tenant(
    snapshot: RoutingSnapshot, plan: Plan, callers: Mapping[Place, Iterable[TenantId]], base: Digest, pool: PoolName
) -> Mapping[TenantId, HomesOf]:
    homes: dict[TenantId, dict[EngineName, tuple[WorkerId, ...]]] = {}
    for tenant, version in _calls(snapshot, callers, base, pool):
        homes.setdefault(tenant, {})[version] = plan.placements[(pool, version)].homes
    return dict(sorted(homes.items()))


def _calls(
    snapshot: RoutingSnapshot, callers: Mapping[Place, Iterable[TenantId]], base: Digest, pool: PoolName
) -> Iterator[tuple[TenantId, EngineName]]:
    for (name, version), tenants in callers.items():
        if name == pool and snapshot.versions[version].base == base:
            yield from ((tenant, version) for tenant in tenants)
