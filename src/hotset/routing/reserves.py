"""Whether the reserves of a pool's tenants hold, and would hold with any one worker lost (N+1).

A reserve is so many slots, or bytes of files in the local store, on each worker of the pool, and covers as many of the
tenant's homes there, or as much of their files. A worker that is lost takes its part of every reserve with it, while
the versions at home there go to the others: what no longer fits under the reserves that are left is what this finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId
from hotset.routing.placements import HomeWorker
from hotset.routing.rendezvous import rank

#: Where a tenant's versions are at home in the pool.
HomesOf = Mapping[EngineName, tuple[WorkerId, ...]]
Unit = Literal["slots", "bytes"]


@dataclass(frozen=True, slots=True)
class Owed:
    """What each tenant of a pool is owed on each worker, of slots or of bytes."""

    unit: Unit
    #: By tenant.
    reserves: Mapping[TenantId, int]
    #: What there is of it on each worker; None where the worker does not say.
    there: Mapping[WorkerId, int | None]
    #: What a version takes of it where it is at home.
    takes: Mapping[EngineName, int]


@dataclass(frozen=True, slots=True)
class ReserveGap:
    """A reserve that does not hold: now, or with one worker lost."""

    tenant: TenantId
    base: Digest
    pool: PoolName
    #: Whose loss opens it; None where it is open now.
    lost: WorkerId | None
    unit: Unit
    #: Slots or bytes of each worker that the tenant's quota says, and the workers that are there.
    reserve: int
    num_workers: int
    #: Homes, or bytes of their files, that the reserve is to cover, and those that it would.
    num_meant: int
    num_covered: int

    @property
    def message(self) -> str:
        """One sentence for an operator."""
        if not self.num_workers:
            return (
                f"Tenant {self.tenant}, pool {self.pool}: {self.lost} is the pool's only worker; with it lost, nothing "
                f"serves this tenant, whose reserve of {self.reserve:,} {self.unit} asks for a second one."
            )
        when = "now" if self.lost is None else f"with {self.lost} lost"
        what = "homes" if self.unit == "slots" else "bytes of files at home"
        return (
            f"Tenant {self.tenant}, pool {self.pool}: {when}, its reserve of {self.reserve:,} {self.unit} on each of "
            f"{self.num_workers} workers covers {self.num_covered:,} of the {self.num_meant:,} {what} that it should."
        )


def find_gaps(
    base: Digest,
    pool: PoolName,
    workers: Sequence[HomeWorker],
    owed: Owed,
    homes: Mapping[TenantId, HomesOf],
) -> list[ReserveGap]:
    """Return the gap of each tenant that has one, by name: the one that is open now, else that of the worst loss.

    Args:
        base: Of which base,
        pool: and of which pool of it these workers are.
        workers: They, live.
        owed: What each of the pool's tenants is owed on each worker.
        homes: Where the versions of each tenant are at home.
    """
    given = {worker.worker: _given(owed.there[worker.worker], owed.reserves) for worker in workers}
    sizes = {worker.worker: float(worker.num_slots) for worker in workers}
    gaps: list[ReserveGap] = []
    for tenant, reserve in sorted(owed.reserves.items()):
        at_home = homes.get(tenant, {})
        if reserve and at_home:
            asked = dict.fromkeys(sizes, reserve)
            found = _gap(at_home, {worker: given[worker][tenant] for worker in sizes}, asked, sizes, owed.takes)
            if found is not None:
                lost, num_meant, num_covered = found
                num_workers = len(sizes) - (lost is not None)
                gaps.append(
                    ReserveGap(tenant, base, pool, lost, owed.unit, reserve, num_workers, num_meant, num_covered)
                )
    return gaps


def _given(there: int | None, reserves: Mapping[TenantId, int]) -> Mapping[TenantId, int]:
    """Return what each tenant gets there: those whose reserves do not fit get less, in the order of their names."""
    if there is None:
        return reserves
    given: dict[TenantId, int] = {}
    for tenant, reserve in sorted(reserves.items()):
        given[tenant] = min(reserve, there)
        there -= given[tenant]
    return given


def _gap(
    at_home: HomesOf,
    owed: Mapping[WorkerId, int],
    asked: Mapping[WorkerId, int],
    sizes: Mapping[WorkerId, float],
    takes: Mapping[EngineName, int],
) -> tuple[WorkerId | None, int, int] | None:
    """Return whose loss opens the widest gap, with what is to be covered and what would be."""
    meant, covered = _covered(at_home, asked, takes), _covered(at_home, owed, takes)
    if covered < meant:
        return None, meant, covered
    left = {
        lost: _covered(
            _without(lost, at_home, sizes), {worker: owed[worker] for worker in owed if worker != lost}, takes
        )
        for lost in sorted(sizes)
    }
    worst = min(left, key=lambda lost: (left[lost], lost))
    return (worst, covered, left[worst]) if left[worst] < covered else None


def _covered(at_home: HomesOf, owed: Mapping[WorkerId, int], takes: Mapping[EngineName, int]) -> int:
    """Return how much of what is at home is within what is owed on its worker."""
    there = dict.fromkeys(owed, 0)
    for version, homes in at_home.items():
        for worker in homes:
            if worker in there:
                there[worker] += takes[version]
    return sum(min(there[worker], owed[worker]) for worker in owed)


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
