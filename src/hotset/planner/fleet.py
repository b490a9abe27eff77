"""A whole fleet in one simulated world: control, gateways, agents, clients, and the faults that befall them."""

import random
from collections.abc import Mapping

from hotset.core.fleet import WorkerFacts
from hotset.core.ids import WorkerId
from hotset.planner.client_rules import ClientRules
from hotset.planner.clients import Clients
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.fault_injector import FaultInjector, Parts
from hotset.planner.fault_plan import Nodes, draw_plan
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.installation import BASE, draw_installation, reviewer_keys
from hotset.planner.job_rules import JobRules
from hotset.planner.job_table import JobTable
from hotset.planner.operator_acts import OperatorActs
from hotset.planner.rules import demand
from hotset.planner.virtual_agent import VirtualAgent
from hotset.planner.virtual_control import VirtualControl
from hotset.planner.virtual_database import VirtualDatabase
from hotset.planner.virtual_gateway import VirtualGateway
from hotset.planner.virtual_roster import LOST_AFTER_S, VirtualRoster
from hotset.planner.worker_view import in_engine
from hotset.residency.reclaim import Reclaim
from hotset.sim.clocks import SkewedClock
from hotset.sim.faults import Plan
from hotset.sim.network import Address, Network, Quality
from hotset.sim.world import World

CONTROL = "control"
#: Seconds by a gateway's clock; the real default is 900, too long to be met here.
_SNAPSHOT_AGE_MAX_S = 6.0
#: A clock's rate is never lower.
_RATE_MIN = 0.8
#: What a word may take beside that: it was asked for before the lease began.
_SLACK_S = 0.1
_FAULTS_UNTIL_S = 200.0
#: Of the fleets with a worker to spare, those of which it is in a pool of its own from the start.
_POOLED_SHARE = 0.5


class Fleet:
    """One seed's world."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        """Build the fleet.

        Args:
            seed: Everything is drawn from it.
            plan: Faults in place of the drawn ones.
        """
        self.world = World(seed)
        rng = self.world.randomness("fleet")
        self.network = Network(self.world, Quality())
        agents = tuple(f"agent-{index}" for index in range(rng.randint(2, 3)))
        gateways = tuple(f"gateway-{index}" for index in range(rng.choice((1, 2, 2))))
        # The first takes every rank, and so does the one that may have a pool to itself.
        classes = (64, rng.choice((16, 64)), 64)
        self._shapes = {agent: _draw_shape(rng, rank_class) for agent, rank_class in zip(agents, classes, strict=False)}
        self.installation = draw_installation(rng, min(shape.num_slots for shape in self._shapes.values()))
        if len(agents) == len(classes) and rng.random() < _POOLED_SHARE:
            self.installation.arrangement.move_worker(WorkerId(agents[-1]))
            self.installation.arrangement.move_tenant(rng.choice(list(self.installation.tenants)))
        self.nodes = Nodes(agents, gateways, CONTROL, tuple(self.installation.tenants))
        truth = self.installation.truth
        self.rules = ClientRules(self.world, truth, withdrawn_within_s=_SNAPSHOT_AGE_MAX_S / _RATE_MIN + _SLACK_S)
        self.fleet_rules = FleetRules(self.world, truth, lost_after_s=LOST_AFTER_S)
        self.clocks = {address: SkewedClock(self.world) for address in self.nodes.all()}
        for clock in self.clocks.values():
            clock.set_rate(rng.uniform(0.97, 1.03))
            clock.wall_offset_s = rng.uniform(-300, 300)
        self.control = self._make_control(rng)
        self.agents = {agent: self._make_agent(agent, agent) for agent in agents}
        self.seconds = {agent: self._make_agent(f"second-{agent}", agent) for agent in agents}
        for agent in self.agents.values():
            agent.start()
        self.job_rules = JobRules()
        self.database = VirtualDatabase(self.world, JobTable(self.world, self.job_rules))
        self.gateways = {address: self._make_gateway(address, rng.choice((16, 64))) for address in gateways}
        self.clients = Clients(self.world, self.installation, list(self.gateways.values()), self.rules)
        self.plan = self._draw_plan() if plan is None else plan
        self._faults = FaultInjector(self.world, self._parts(), self.plan)

    def _make_control(self, rng: random.Random) -> VirtualControl:
        return VirtualControl(
            self.world,
            self.network,
            CONTROL,
            self.installation,
            roster=VirtualRoster(self.world, _facts_of(self._shapes), self.fleet_rules),
            holders=(*self.nodes.agents, *self.nodes.gateways),
            act_every_s=rng.uniform(0.2, 3.0),
        )

    def _make_gateway(self, address: Address, in_flight_max: int) -> VirtualGateway:
        return VirtualGateway(
            self.network,
            address,
            self.clocks[address],
            control=CONTROL,
            database=self.database,
            observer=self.rules,
            rules=self.fleet_rules,
            job_rules=self.job_rules,
            snapshot_age_max_s=_SNAPSHOT_AGE_MAX_S,
            in_flight_max=in_flight_max,
        )

    def _parts(self) -> Parts:
        return Parts(
            self.network,
            self.control,
            self.agents,
            self.seconds,
            self.gateways,
            self.clocks,
            self.database,
            OperatorActs(self.installation, self.control),
        )

    def _make_agent(self, address: Address, worker: Address) -> VirtualAgent:
        """Return an agent that is not started: the first of its identity, or a second one on another machine."""
        return VirtualAgent(
            self.world,
            self.network,
            address,
            self.clocks[worker],
            gateways=self.nodes.gateways,
            control=CONTROL,
            base=BASE,
            shape=self._shapes[worker],
            truth=self.installation.truth,
            reviewer_keys=reviewer_keys(),
            rules=self.fleet_rules,
            worker=WorkerId(worker),
        )

    def _draw_plan(self) -> Plan:
        rng = self.world.randomness("faults")
        return draw_plan(rng, self.nodes, until_s=_FAULTS_UNTIL_S, every_s=rng.uniform(0.7, 4.0))

    # --- the run ---------------------------------------------------------------------------------------

    def run(self, num_events: int) -> None:
        """Let so many events happen, then let the fleet come to rest without faults and check that nothing is left.

        Raises:
            AssertionError: a rule does not hold.
        """
        while self.world.log.num_events < num_events and self.world.step():
            pass
        self._rest()

    def _rest(self) -> None:
        """Heal everything, let nobody ask any more, and wait until all that was asked has ended."""
        self.clients.is_quiet = self.control.is_quiet = True
        self._faults.end()
        until_s = self.world.now_s + 60.0
        while self.world.now_s < until_s and not self._is_at_rest():
            self.world.step()
        self.job_rules.all_ended()
        self.rules.all_ended()
        for agent in self.agents.values():
            left = agent.num_requests + (0 if agent.life is None else len(agent.life.requests))
            demand(not left, "I8", f"{agent.address} holds {left} requests that nobody waits for")
        for gateway in self.gateways.values():
            demand(gateway.in_flight.total == 0, "I8", f"{gateway.address} counts {gateway.in_flight.total} in flight")
            demand(gateway.epoch == self.control.epoch, "I9", f"{gateway.address} is at epoch {gateway.epoch}")
        for agent in self.agents.values():
            assert agent.life is not None, f"{agent.address} has no engine at rest"
            leases = list(agent.life.residency.state.leases)
            demand(not leases, "I8", f"{agent.address} keeps leases of {leases}, which ended")
            demand(agent.fence, "fence", f"{agent.address} may not serve at rest")
            known, held = in_engine(agent.life.residency), frozenset(agent.life.engine.loaded)
            demand(
                known == held, "I4", f"{agent.address} believes {sorted(known)} loaded, its engine holds {sorted(held)}"
            )

    def _is_at_rest(self) -> bool:
        if self.rules.num_open or self.database.table.num_unended:
            return False
        if any(gateway.epoch != self.control.epoch for gateway in self.gateways.values()):
            return False
        return all(_is_at_rest(agent) for agent in self.agents.values())


def _is_at_rest(agent: VirtualAgent) -> bool:
    life = agent.life
    if life is None or not agent.fence or agent.num_requests or life.requests:
        return False
    return in_engine(life.residency) == frozenset(life.engine.loaded)


def _facts_of(shapes: Mapping[Address, WorkerShape]) -> dict[WorkerId, WorkerFacts]:
    return {
        WorkerId(agent): WorkerFacts(
            worker=WorkerId(agent),
            base=BASE,
            rank_class=shape.rank_class,
            num_slots=shape.num_slots,
            hardware_class="simulated",
            engine="simulated",
            num_sequences_max=shape.sequences_max,
        )
        for agent, shape in shapes.items()
    }


def _draw_shape(rng: random.Random, rank_class: int) -> WorkerShape:
    return WorkerShape(
        rank_class=rank_class,
        num_slots=rng.randint(2, 6),
        sequences_max=rng.choice((1, 2, 4, 8)),
        waiting_max=rng.choice((8, 64)),
        warm_bytes_max=rng.choice((40_000_000, 400_000_000)),
        stall_ms_per_s=rng.choice((20.0, 500.0)),
        reclaim=Reclaim(rng.choice(("finish", "cut")), rng.choice((0.1, 1.0))),
        adapters_max=rng.choice((None, None, 1, 2)),
        effect_timeout_s=rng.choice((0.3, 1.0, 2.0)),
    )
