"""Whether the reserves of a pool's tenants hold, and would hold with any one worker lost (N+1).

A reserve is so many slots on each worker of the pool, and covers as many of the tenant's homes there. A worker that is
lost takes its part of every reserve with it, while the versions at home there go to the others: what no longer fits
under the reserves that are left is what this finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId
from hotset.routing.placements import HomeWorker
from hotset.routing.rendezvous import rank

#: Where a tenant's versions are at home in the pool.
HomesOf = Mapping[EngineName, tuple[WorkerId, ...]]


@dataclass(frozen=True, slots=True)
class ReserveGap:
    """A reserve that does not hold: now, or with one worker lost."""

    tenant: TenantId
    base: Digest
    pool: PoolName
    #: Whose loss opens it; None where it is open now.
    lost: WorkerId | None
    #: Slots of each worker that the tenant's quota says, and the workers that are there.
    reserve_slots: int
    num_workers: int
    #: Homes that the reserve is to cover, and those that it would.
    num_homes: int
    num_covered: int

    @property
    def message(self) -> str:
        """One sentence for an operator."""
        if not self.num_workers:
            return (
                f"Tenant {self.tenant}, pool {self.pool}: {self.lost} is the pool's only worker; with it lost, nothing "
                f"serves this tenant, whose reserve of {self.reserve_slots} slots asks for a second one."
            )
        when = "now" if self.lost is None else f"with {self.lost} lost"
        return (
            f"Tenant {self.tenant}, pool {self.pool}: {when}, its reserve of {self.reserve_slots} slots on each of "
            f"{self.num_workers} workers covers {self.num_covered} of the {self.num_homes} homes that it should."
        )


def find_gaps(
    base: Digest,
    pool: PoolName,
    workers: Sequence[HomeWorker],
    reserves: Mapping[TenantId, int],
    homes: Mapping[TenantId, HomesOf],
) -> list[ReserveGap]:
    """Return the gap of each tenant that has one, by name: the one that is open now, else that of the worst loss.

    Args:
        base: Of which base,
        pool: and of which pool of it these workers are.
        workers: They, live.
        reserves: Slots that each of the pool's tenants is owed on each worker.
        homes: Where the versions of each tenant are at home.
    """
    given = {worker.worker: _given(worker, reserves) for worker in workers}
    sizes = {worker.worker: float(worker.num_slots) for worker in workers}
    gaps: list[ReserveGap] = []
    for tenant, reserve in sorted(reserves.items()):
        at_home = homes.get(tenant, {})
        if reserve and at_home:
            owed = {worker: given[worker][tenant] for worker in sizes}
            found = _gap(at_home, owed, dict.fromkeys(sizes, reserve), sizes)
            if found is not None:
                lost, num_homes, num_covered = found
                num_workers = len(sizes) - (lost is not None)
                gaps.append(ReserveGap(tenant, base, pool, lost, reserve, num_workers, num_homes, num_covered))
    return gaps


def _given(worker: HomeWorker, reserves: Mapping[TenantId, int]) -> dict[TenantId, int]:
    """Return what each tenant gets there: those whose reserves do not fit get less, in the order of their names."""
    left = worker.num_slots
    given: dict[TenantId, int] = {}
    for tenant, reserve in sorted(reserves.items()):
        given[tenant] = min(reserve, left)
        left -= given[tenant]
    return given


def _gap(
    at_home: HomesOf, owed: Mapping[WorkerId, int], asked: Mapping[WorkerId, int], sizes: Mapping[WorkerId, float]
) -> tuple[WorkerId | None, int, int] | None:
    """Return whose loss opens the widest gap, with the homes to be covered and those that would be."""
    meant, covered = _covered(at_home, asked), _covered(at_home, owed)
    if covered < meant:
        return None, meant, covered
    left = {
        lost: _covered(_without(lost, at_home, sizes), {worker: owed[worker] for worker in owed if worker != lost})
        for lost in sorted(sizes)
    }
    worst = min(left, key=lambda lost: (left[lost], lost))
    return (worst, covered, left[worst]) if left[worst] < covered else None


def _covered(at_home: HomesOf, owed: Mapping[WorkerId, int]) -> int:
    """Return how many of these homes are within what is owed on their worker."""
    num_homes = {worker: sum(worker in homes for homes in at_home.values()) for worker in owed}
    return sum(min(num_homes[worker], owed[worker]) for worker in owed)


def _without(lost: WorkerId, at_home: HomesOf, sizes: Mapping[WorkerId, float]) -> HomesOf:
    """Return the homes as they would be without the worker: each that was there goes to the next best drawn."""
    left = {worker: size for worker, size in sizes.items() if worker != lost}
    return {version: _moved(lost, version, homes, left) for version, homes in at_home.items()}


def _moved(
    lost: WorkerId, version: EngineName, homes: tuple[WorkerId, ...], left: Mapping[WorkerId, float]
) -> tuple[WorkerId, ...]:
    kept = tuple(worker for worker in homes if worker != lost)
    spare = [worker for worker in rank(version, left) if worker not in kept]
    return (*kept, *spare[: len(homes) - len(kept)])
