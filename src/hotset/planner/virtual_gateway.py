"""A simulated gateway: authenticates, resolves with the production `routing`, lets requests in, applies snapshots."""

from hotset.admission.in_flight import InFlight
from hotset.admission.outcomes import Outcome
from hotset.core.errors import HotsetError
from hotset.core.ids import JobId, RequestId
from hotset.planner.exchanges import CONTROL_UNREACHABLE, Asked, Exchange, Watcher
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.held_snapshot import HeldSnapshot
from hotset.planner.job_door import JobDoor
from hotset.planner.job_rules import JobRules
from hotset.planner.protocol import Accepted, Beat, Piece, Published, Refused, StaleRoute, Waiting
from hotset.planner.virtual_database import VirtualDatabase
from hotset.planner.virtual_job_runner import VirtualJobRunner
from hotset.planner.virtual_relay import Relay, outcome_of
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.network import Address, Network

#: Seconds, by the gateway's own clock.
ALIVE_EVERY_S = 0.5


class VirtualGateway:
    """One gateway through all its lives."""

    def __init__(
        self,
        network: Network,
        address: Address,
        clock: SkewedClock,
        *,
        control: Address,
        database: VirtualDatabase,
        observer: Watcher,
        rules: FleetRules,
        job_rules: JobRules,
        snapshot_age_max_s: float,
        in_flight_max: int,
    ) -> None:
        self._network, self.address, self.clock = network, address, clock
        self._control, self._database = control, database
        self._observer, self._rules, self._job_rules = observer, rules, job_rules
        self._snapshot_age_max_s = snapshot_age_max_s
        self._in_flight_max = in_flight_max
        self._num_lives = 0
        self._timers = Timers(clock)
        self.is_up = False
        self.start()

    # --- up and down -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin another life, without a snapshot."""
        self.is_up = True
        self._num_lives += 1
        self.in_flight = InFlight(total_max=self._in_flight_max, per_tenant_max=self._in_flight_max // 2)
        self._held = HeldSnapshot(
            self._network, self.address, self.clock, control=self._control, age_max_s=self._snapshot_age_max_s
        )
        self._relay = Relay(
            self._network,
            self.address,
            self.clock,
            self._held,
            life=self._num_lives,
            in_flight=self.in_flight,
            rules=self._rules,
        )
        self._job_door = JobDoor(
            self._database,
            self._timers,
            self.address,
            in_flight=self.in_flight,
            observer=self._observer,
            rules=self._job_rules,
        )
        self._job_runner = VirtualJobRunner(
            self._database,
            self._timers,
            self.clock,
            self.address,
            held=self._held,
            relay=self._relay,
            observer=self._observer,
            rules=self._job_rules,
        )
        self._network.attach(self.address, self._receive)
        self._say_alive()

    def crash(self) -> None:
        """End at once: every client sees its connection break."""
        self.is_up = False
        self._network.detach(self.address)
        self._timers.cancel_all()
        self._job_runner.stop()
        self._job_door.break_off()
        self._relay.break_off()

    @property
    def epoch(self) -> int:
        """Of the snapshot that it applies."""
        return self._held.epoch

    # --- clients ---------------------------------------------------------------------------------------

    def ask(self, asked: Asked) -> None:
        """Take a client's request: a route and an agent, or a refusal at once."""
        if self._held.is_outdated():
            self._observer.ended(asked.request, Outcome.FAILED, CONTROL_UNREACHABLE)
            return
        try:
            key = self._held.authenticate(asked.key_hash)
            self.in_flight.enter(key.tenant)
        except HotsetError as error:
            self._observer.ended(asked.request, outcome_of(error), error.code)
            return
        try:
            bound = self._held.resolve(key, asked.model)
        except HotsetError as error:
            self.in_flight.leave(key.tenant)
            self._observer.ended(asked.request, outcome_of(error), error.code)
            return
        if asked.job_within_s is not None:
            self._job_door.accept(asked, key.tenant, epoch=self.epoch)
            return
        self._relay.begin(Exchange(asked, key, bound, self.epoch, self.clock.monotonic_s(), self._observer))

    def leave(self, request: RequestId) -> None:
        """A client went away."""
        self._relay.leave(request)
        self._job_door.leave(request)

    def cancel_job(self, job: JobId) -> None:
        """A client wants a job no more."""
        self._job_door.cancel(job)

    # --- what it hears ---------------------------------------------------------------------------------

    def _receive(self, source: Address, message: object) -> None:
        match message:
            case Published():
                self._take_snapshot(message)
            case Beat():
                self._relay.sights.beat(source, message)
            case Waiting() | Accepted() | Refused() | StaleRoute() | Piece():
                self._relay.hear(source, message)
            case _:
                raise AssertionError(f"{self.address} does not know {message}")

    def _take_snapshot(self, published: Published) -> None:
        before = self.epoch
        if not self._held.take(published):
            return
        self._relay.snapshot_changed()
        for epoch, withdrawal in published.cuts:
            if epoch > before:
                self._relay.cut(epoch, withdrawal)

    # --- what it says again and again ------------------------------------------------------------------

    def _say_alive(self) -> None:
        for agent in self._relay.agents():
            self._network.send(self.address, agent, self._relay.alive(agent))
        self._held.ask_control()
        self._timers.after(ALIVE_EVERY_S, f"{self.address} says what lives", self._say_alive)
