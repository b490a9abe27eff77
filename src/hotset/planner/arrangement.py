"""Which pools a simulated installation has, who is in them, and what operators said of its workers."""

from dataclasses import dataclass, field

from hotset.core.fleet import DEFAULT_POOL, PoolEntry, WorkerEntry, WorkerFacts, WorkerState
from hotset.core.ids import Digest, PoolName, TenantId, WorkerId

#: Beside the default one. Tenants and workers come and go.
OWN_POOL = PoolName("own")


@dataclass(slots=True)
class Arrangement:
    """Rows of a simulated database: what is not here is in the default pool, and serves."""

    base: Digest
    tenants: set[TenantId] = field(default_factory=set[TenantId])
    workers: set[WorkerId] = field(default_factory=set[WorkerId])
    states: dict[WorkerId, WorkerState] = field(default_factory=dict[WorkerId, WorkerState])

    def pools(self) -> dict[PoolName, PoolEntry]:
        """Return the pools that were added."""
        tenants = tuple(sorted(self.tenants))
        kind = "dedicated" if len(tenants) == 1 else "shared"
        return {OWN_POOL: PoolEntry(pool=OWN_POOL, base=self.base, kind=kind, tenants=tenants)}

    def tenant_pools(self) -> dict[tuple[TenantId, Digest], PoolName]:
        """Return the pool of each tenant that is assigned to one."""
        return {(tenant, self.base): OWN_POOL for tenant in sorted(self.tenants)}

    def entry(self, facts: WorkerFacts, fence: int) -> WorkerEntry:
        """Return a worker as a snapshot has it."""
        pool = OWN_POOL if facts.worker in self.workers else DEFAULT_POOL
        return WorkerEntry(facts=facts, pool=pool, state=self.states.get(facts.worker, "serving"), fence=fence)

    def move_tenant(self, tenant: TenantId) -> None:
        """Move a tenant to the other pool."""
        self.tenants ^= {tenant}

    def move_worker(self, worker: WorkerId) -> None:
        """Move a worker to the other pool."""
        self.workers ^= {worker}
