"""The rules of a fleet, asserted from outside: one agent serves under an identity, pools keep their tenants apart.

The design gives these no numbers; here they are ``fence``, ``pool`` and ``drain``.
"""

from hotset.core.fleet import WorkerEntry
from hotset.core.ids import TenantId, WorkerId
from hotset.planner.protocol import Submit
from hotset.planner.rules import demand
from hotset.planner.truth import Truth
from hotset.sim.network import Address
from hotset.sim.world import World


class FleetRules:
    """Watches control, all gateways and all agents together."""

    def __init__(self, world: World, truth: Truth, *, lost_after_s: float) -> None:
        """Watch from the start.

        Args:
            world: Where true time comes from.
            truth: What was published.
            lost_after_s: How long an agent that was heard is safe from others that want its identity.
        """
        self._world, self._truth, self._lost_after_s = world, truth, lost_after_s
        #: To which agent each fence was given, and as whom it serves.
        self._agents: dict[int, tuple[Address, WorkerId]] = {}
        #: Who spoke to control last as each worker, under the fence that it was given, and when.
        self._heard: dict[WorkerId, tuple[Address, float]] = {}

    # --- control ---------------------------------------------------------------------------------------

    def granted(self, worker: WorkerId, agent: Address, fence: int) -> None:
        """Control lets an agent serve."""
        known = self._agents.setdefault(fence, (agent, worker))
        demand(known == (agent, worker), "fence", f"{fence} of {known} is given to {agent}, too, as {worker}")
        last, at_s = self._heard.get(worker, (agent, 0.0))
        is_alive = last != agent and self._world.now_s - at_s < self._lost_after_s
        demand(not is_alive, "fence", f"{agent} becomes {worker}, as which {last} was heard at {at_s:.3f}")
        self._heard[worker] = agent, self._world.now_s

    def heard(self, worker: WorkerId, agent: Address, fence: int) -> None:
        """Control takes an agent's word for how a worker is."""
        demand(self._agents.get(fence) == (agent, worker), "fence", f"{agent} passes for {worker} under fence {fence}")
        self._heard[worker] = agent, self._world.now_s

    # --- gateways --------------------------------------------------------------------------------------

    def sent(self, tenant: TenantId, worker: WorkerId, epoch: int) -> None:
        """A gateway that applies this epoch sends a request to a worker."""
        entry = self._entry(worker, epoch)
        demand(entry is not None, "fence", f"a request goes to {worker}, which epoch {epoch} does not know")
        assert entry is not None
        demand(entry.state == "serving", "drain", f"a request goes to {worker}, {entry.state} since epoch {epoch}")
        self._is_of_pool(tenant, worker, entry, epoch)

    # --- agents ----------------------------------------------------------------------------------------

    def took(self, worker: WorkerId, agent: Address, fence: int, submit: Submit, epoch: int) -> None:
        """An agent that applies this epoch takes a request."""
        request = submit.work.request_id
        known = self._agents.get(fence)
        demand(known == (agent, worker), "fence", f"{agent} takes {request} as {worker} under fence {fence} of {known}")
        sought = self._entry(worker, submit.epoch)
        is_fenced = sought is not None and sought.fence > fence
        demand(not is_fenced, "fence", f"{agent} takes {request} under fence {fence}, which another one has outranked")
        entry = self._entry(worker, epoch)
        demand(entry is not None, "pool", f"{agent} takes {request} at epoch {epoch}, which does not know it")
        assert entry is not None
        demand(entry.state != "draining", "drain", f"{agent} takes {request}, draining since epoch {epoch}")
        self._is_of_pool(submit.work.tenant, worker, entry, epoch)

    def _is_of_pool(self, tenant: TenantId, worker: WorkerId, entry: WorkerEntry, epoch: int) -> None:
        pool = self._truth.published[epoch][1].pool_of(tenant, entry.facts.base)
        demand(entry.pool == pool, "pool", f"{worker} of {entry.pool} is to serve {tenant} of {pool}, epoch {epoch}")

    def _entry(self, worker: WorkerId, epoch: int) -> WorkerEntry | None:
        return self._truth.published[epoch][1].workers.get(worker) if epoch else None
