"""A simulated gateway: authenticates, resolves with the production `routing`, picks an agent, relays.

A withdrawal stops what has not begun when the snapshot that holds it is applied, and is looked for once more at the
first piece of an answer, as in `gateway.exchange`.
"""

from functools import partial

from hotset.admission.in_flight import InFlight
from hotset.admission.outcomes import Outcome
from hotset.core.errors import (
    AdmissionError,
    EngineUnavailableError,
    HotsetError,
    RequestError,
    RevokedError,
    UnauthenticatedError,
)
from hotset.core.fleet import Heartbeat
from hotset.core.ids import RequestId, WorkerId, engine_name
from hotset.core.messages import Generate, Sampling
from hotset.core.ports import Withdrawal, Work
from hotset.core.snapshot import KeyEntry, RoutingSnapshot
from hotset.planner.exchanges import CONTROL_UNREACHABLE, Asked, Exchange, Observer
from hotset.planner.protocol import (
    Abort,
    Accepted,
    Alive,
    Beat,
    Holds,
    Piece,
    Published,
    Refused,
    StaleRoute,
    Submit,
    Waiting,
)
from hotset.planner.virtual_homes import newer
from hotset.routing.pick import PickSettings, Sight, pick
from hotset.routing.resolve import resolve, stop_reason
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.network import Address, Network
from hotset.sim.world import Action, World

#: Seconds, by the gateway's own clock.
ALIVE_EVERY_S = 0.5
#: A word to an agent that is not answered for so long is said again, or to another one.
UNANSWERED_S = 0.4
TRIES_MAX = 3
_PICK = PickSettings(fresh_s=1.0, lost_after_s=3.0)
#: A request that waits at an agent and hears nothing for so long is given up; longer than any agent lets it wait.
WAITING_S = 10.0
#: A running answer that brings nothing for so long is given up.
SILENT_S = 6.0
_REFUSING = (RequestError, AdmissionError)


class VirtualGateway:
    """One gateway through all its lives."""

    def __init__(
        self,
        world: World,
        network: Network,
        address: Address,
        clock: SkewedClock,
        *,
        agents: tuple[Address, ...],
        control: Address,
        observer: Observer,
        snapshot_age_max_s: float,
        in_flight_max: int,
    ) -> None:
        self._world, self._network, self.address, self.clock = world, network, address, clock
        self._agents, self._control, self._observer = agents, control, observer
        self._snapshot_age_max_s = snapshot_age_max_s
        self._in_flight_max = in_flight_max
        self._life = 0
        self._timers = Timers(clock)
        self.is_up = False
        self.start()

    # --- up and down -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin another life, without a snapshot."""
        self.is_up = True
        self._life += 1
        self._snapshot = RoutingSnapshot()
        #: When the snapshot was asked for that control said last is the newest; own clock.
        self._fresh_at_s = -self._snapshot_age_max_s
        #: The newest heartbeat of each worker, and when it came; own clock.
        self._beats: dict[WorkerId, tuple[Heartbeat, float]] = {}
        self._exchanges: dict[RequestId, Exchange] = {}
        #: Words sent to each agent.
        self._counts = dict.fromkeys(self._agents, 0)
        self.in_flight = InFlight(total_max=self._in_flight_max, per_tenant_max=self._in_flight_max // 2)
        self._network.attach(self.address, self._receive)
        self._say_alive()

    def crash(self) -> None:
        """End at once: every client sees its connection break."""
        self.is_up = False
        self._network.detach(self.address)
        self._timers.cancel_all()
        for request, exchange in list(self._exchanges.items()):
            if exchange.timer is not None:
                exchange.timer.cancel()
            self._observer.ended(request, Outcome.FAILED, "connection_broken")
        self._exchanges.clear()

    @property
    def epoch(self) -> int:
        """Of the snapshot that it applies."""
        return self._snapshot.epoch

    @property
    def num_requests(self) -> int:
        """Requests that have a route and have not ended."""
        return len(self._exchanges)

    # --- clients ---------------------------------------------------------------------------------------

    def ask(self, asked: Asked) -> None:
        """Take a client's request: a route and an agent, or a refusal at once."""
        snapshot, now_s = self._snapshot, self.clock.monotonic_s()
        if now_s - self._fresh_at_s >= self._snapshot_age_max_s:
            self._observer.ended(asked.request, Outcome.FAILED, CONTROL_UNREACHABLE)
            return
        try:
            key = self._authenticate(asked.key_hash)
            self.in_flight.enter(key.tenant)
        except HotsetError as error:
            self._observer.ended(asked.request, _outcome_of(error), error.code)
            return
        try:
            bound = resolve(snapshot, key, asked.model)
        except HotsetError as error:
            self.in_flight.leave(key.tenant)
            self._observer.ended(asked.request, _outcome_of(error), error.code)
            return
        exchange = Exchange(asked, key, bound, snapshot.epoch, now_s)
        self._exchanges[asked.request] = exchange
        self._observer.bound(asked.request, key, bound, snapshot.epoch)
        self._submit(exchange)

    def leave(self, request: RequestId) -> None:
        """A client went away."""
        if (exchange := self._exchanges.get(request)) is not None:
            self._end(exchange, Outcome.CANCELLED, "")

    def _authenticate(self, key_hash: str) -> KeyEntry:
        entry = self._snapshot.keys.get(key_hash)
        if entry is None or entry.tenant not in self._snapshot.tenants:
            raise UnauthenticatedError
        if entry.expires_at_s is not None and entry.expires_at_s <= self.clock.wall_s():
            raise UnauthenticatedError
        return entry

    # --- agents ----------------------------------------------------------------------------------------

    def _submit(self, exchange: Exchange) -> None:
        """Hand a request to the worker that suits it best, of those that were not tried."""
        picked = pick(self._snapshot, exchange.key.tenant, exchange.bound.route, self._sights(), _PICK)
        left = [worker for worker in picked if worker not in exchange.tried]
        if not left:
            self._fail(exchange, EngineUnavailableError())
            return
        exchange.agent = left[0]
        exchange.tried.append(exchange.agent)
        exchange.num_tries = 0
        exchange.submitted_at_s = self.clock.monotonic_s()
        self._counts[exchange.agent] += 1
        exchange.count = self._counts[exchange.agent]
        self._send_submit(exchange)

    def _sights(self) -> dict[WorkerId, Sight]:
        """Return what is known of each worker."""
        now_s = self.clock.monotonic_s()
        return {
            worker: Sight(heartbeat, now_s - at_s, self._num_sent(worker, at_s))
            for worker, (heartbeat, at_s) in self._beats.items()
        }

    def _num_sent(self, worker: WorkerId, since_s: float) -> int:
        return sum(each.agent == worker and each.submitted_at_s >= since_s for each in self._exchanges.values())

    def _send_submit(self, exchange: Exchange) -> None:
        """Say it, again where nothing came back, and at last to another agent."""
        if exchange.num_tries == TRIES_MAX:
            self._network.send(self.address, exchange.agent, Abort(exchange.asked.request))
            self._submit(exchange)
            return
        exchange.num_tries += 1
        self._network.send(self.address, exchange.agent, self._submit_of(exchange))
        self._set_timer(exchange, UNANSWERED_S, partial(self._send_submit, exchange))

    def _submit_of(self, exchange: Exchange) -> Submit:
        asked, tenant = exchange.asked, exchange.key.tenant
        generate = Generate(
            request_id=asked.request,
            engine_name=engine_name(exchange.bound.route),
            cache_salt=tenant,
            sampling=Sampling(max_tokens=asked.output_tokens, ignore_eos=True),
            prompts=(tuple(range(asked.input_tokens)),),
        )
        left_ms = None
        if asked.budget_ms is not None:
            waited_ms = 1000 * (self.clock.monotonic_s() - exchange.began_at_s)
            left_ms = max(1, asked.budget_ms - int(waited_ms))
        work = Work(asked.request, tenant, exchange.key.key, exchange.bound.route, generate, left_ms)
        return Submit(work, exchange.epoch, self._life, exchange.count)

    # --- what it hears ---------------------------------------------------------------------------------

    def _receive(self, source: Address, message: object) -> None:
        match message:
            case Published():
                self._take_snapshot(message)
            case Beat(heartbeat):
                last = self._beats.get(heartbeat.worker)
                if newer(heartbeat, None if last is None else last[0]):
                    self._beats[heartbeat.worker] = heartbeat, self.clock.monotonic_s()
            case Waiting() | Accepted() | Refused() | StaleRoute() | Piece():
                exchange = self._exchanges.get(message.request)
                if exchange is not None and exchange.agent == source:  # else another agent is to serve it by now
                    self._hear(exchange, message)
            case _:
                raise AssertionError(f"{self.address} does not know {message}")

    def _hear(self, exchange: Exchange, message: Waiting | Accepted | Refused | StaleRoute | Piece) -> None:
        match message:
            case Waiting() | Accepted():
                self._set_timer(exchange, WAITING_S, partial(self._fall_silent, exchange))
            case Refused(_, code):
                self._refused(exchange, code)
            case StaleRoute(_, epoch):
                self._resolve_again(exchange, epoch)
            case Piece():
                self._take_piece(exchange, message)

    def _refused(self, exchange: Exchange, code: str) -> None:
        if not exchange.is_waiting or exchange.wants_epoch:
            return
        if code == EngineUnavailableError.code:
            self._submit(exchange)
            return
        self._end(exchange, Outcome.REFUSED, code)

    def _resolve_again(self, exchange: Exchange, epoch: int) -> None:
        """Bind the request anew once the agent's epoch is here: nothing of an answer has come."""
        if not exchange.is_waiting:
            return
        if self.epoch < epoch:
            exchange.wants_epoch = epoch
            self._poll_control()
            late = partial(self._fail, exchange, EngineUnavailableError())
            self._set_timer(exchange, 2.0, late)
            return
        exchange.wants_epoch = 0
        try:
            exchange.key = self._authenticate(exchange.asked.key_hash)
            exchange.bound = resolve(self._snapshot, exchange.key, exchange.asked.model)
        except HotsetError as error:
            self._fail(exchange, error)
            return
        exchange.epoch = self.epoch
        self._observer.bound(exchange.asked.request, exchange.key, exchange.bound, exchange.epoch)
        exchange.tried.clear()
        self._submit(exchange)

    def _take_piece(self, exchange: Exchange, piece: Piece) -> None:
        """Hand pieces on in their order; what came before its turn waits for it."""
        if piece.position < exchange.num_pieces:
            return
        exchange.early[piece.position] = piece
        while (following := exchange.early.pop(exchange.num_pieces, None)) is not None:
            if exchange.is_waiting and (error := self._stop_reason(exchange)) is not None:
                self._fail(exchange, error)
                return
            exchange.is_waiting = False
            exchange.num_pieces += 1
            if following.token is not None:
                self._observer.token(exchange.asked.request, following.token, self.epoch)
                continue
            code = following.ended or ""
            self._end(exchange, Outcome.FAILED if code else Outcome.COMPLETED, code)
            return
        self._set_timer(exchange, SILENT_S, partial(self._fall_silent, exchange))

    def _stop_reason(self, exchange: Exchange) -> HotsetError | None:
        if self.epoch == exchange.epoch:
            return None
        return stop_reason(self._snapshot, exchange.asked.key_hash, exchange.key, exchange.bound)

    def _take_snapshot(self, published: Published) -> None:
        if published.asked_at_s is not None:
            self._fresh_at_s = max(self._fresh_at_s, published.asked_at_s)
        before, snapshot = self.epoch, published.snapshot
        if snapshot.epoch <= before:
            return
        self._snapshot = snapshot
        for exchange in list(self._exchanges.values()):
            if exchange.wants_epoch:
                self._resolve_again(exchange, exchange.wants_epoch)
            elif exchange.is_waiting and (error := self._stop_reason(exchange)) is not None:
                self._fail(exchange, error)
        for epoch, withdrawal in published.cuts:
            if epoch > before:
                self._cut(epoch, withdrawal)

    def _cut(self, epoch: int, withdrawal: Withdrawal) -> None:
        for exchange in list(self._exchanges.values()):
            key, route = exchange.key, exchange.bound.route
            if exchange.epoch < epoch and withdrawal.covers(key.tenant, key.key, route):
                self._fail(exchange, RevokedError())

    # --- ends ------------------------------------------------------------------------------------------

    def _fall_silent(self, exchange: Exchange) -> None:
        self._end(exchange, Outcome.FAILED, "silent")

    def _fail(self, exchange: Exchange, error: HotsetError) -> None:
        self._end(exchange, _outcome_of(error) if exchange.is_waiting else Outcome.FAILED, error.code)

    def _end(self, exchange: Exchange, outcome: Outcome, code: str) -> None:
        request = exchange.asked.request
        del self._exchanges[request]
        if exchange.timer is not None:
            exchange.timer.cancel()
        self.in_flight.leave(exchange.key.tenant)
        if exchange.agent and outcome is not Outcome.COMPLETED:
            self._network.send(self.address, exchange.agent, Abort(request))
        self._observer.ended(request, outcome, code)

    def _set_timer(self, exchange: Exchange, seconds: float, action: Action) -> None:
        if exchange.timer is not None:
            exchange.timer.cancel()
        what = f"{self.address} waits no more for {exchange.asked.request}"
        exchange.timer = self.clock.after(seconds, what, action)

    # --- what it says again and again ------------------------------------------------------------------

    def _say_alive(self) -> None:
        for agent in self._agents:
            live = tuple(r for r, exchange in self._exchanges.items() if exchange.agent == agent)
            self._network.send(self.address, agent, Alive(self._life, self._counts[agent], live))
        self._poll_control()
        self._timers.after(ALIVE_EVERY_S, f"{self.address} says what lives", self._say_alive)

    def _poll_control(self) -> None:
        self._network.send(self.address, self._control, Holds(self.epoch, self.clock.monotonic_s()))


def _outcome_of(error: HotsetError) -> Outcome:
    return Outcome.REFUSED if isinstance(error, _REFUSING) else Outcome.FAILED
