"""What a snapshot says to one worker: whom it serves, under which quotas, and whether it takes anything new."""

from collections.abc import Mapping
from dataclasses import dataclass

from hotset.core.ids import Digest, PoolName, TenantId, WorkerId
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
