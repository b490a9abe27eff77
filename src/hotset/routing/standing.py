"""What a snapshot says to one worker: whom it serves, under which quotas, and whether it takes anything new."""

from collections.abc import Mapping
from dataclasses import dataclass

from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """One worker's place in a snapshot."""

    base: Digest
    #: None: it is in no fleet, and serves everybody; or it is, and control does not know it, or holds it for lost.
    pool: PoolName | None
    takes_new: bool
    #: Of the tenants that it serves: only their reserves take slots here.
    quotas: Mapping[TenantId, Quota]

    def takes(self, snapshot: RoutingSnapshot, tenant: TenantId) -> bool:
        """Whether a request of this tenant may come; a gateway that has the same snapshot sends no other."""
        is_ours = self.pool is None or snapshot.pool_of(tenant, self.base) == self.pool
        return is_ours and self.takes_new


@dataclass(frozen=True, slots=True)
class HomeHere:
    """A version that is at home at one worker."""

    name: EngineName
    owner: TenantId
    #: Whether it has other homes too, as more is asked of it than one worker can bear.
    is_busy: bool


def homes_at(snapshot: RoutingSnapshot, worker: WorkerId | None, base: Digest) -> tuple[HomeHere, ...]:
    """Return the versions over a base that are at home at a worker: those with most homes first, then the likeliest.

    Args:
        snapshot: The one that its agent applies.
        worker: None where its agent is in no fleet; then nothing is.
        base: What it serves.
    """
    here = [
        ((-len(homes), homes.index(worker), name), HomeHere(name, TenantId(record.owner), is_busy=len(homes) > 1))
        for name, homes in snapshot.homes.items()
        if worker in homes and (record := snapshot.versions.get(name)) is not None and record.base == base
    ]
    return tuple(home for _, home in sorted(here, key=lambda each: each[0]))


def standing_of(snapshot: RoutingSnapshot, worker: WorkerId | None, base: Digest) -> Standing:
    """Return a worker's standing.

    Args:
        snapshot: The one that its agent applies.
        worker: None where its agent is in no fleet.
        base: What it serves.
    """
    entry = None if worker is None else snapshot.workers.get(worker)
    if entry is None:
        return Standing(base, None, takes_new=worker is None, quotas=snapshot.quotas)
    quotas = {
        tenant: quota for tenant, quota in snapshot.quotas.items() if snapshot.pool_of(tenant, base) == entry.pool
    }
    return Standing(base, entry.pool, takes_new=entry.state != "draining", quotas=quotas)
