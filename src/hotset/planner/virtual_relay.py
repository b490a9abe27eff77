"""A simulated gateway's requests from their route to their end: sent to an agent, again or to another one, answered.

A withdrawal stops what has not begun when the snapshot that holds it is applied, and is looked for once more at the
first piece of an answer, as in `gateway.exchange`.
"""

from collections import Counter
from functools import partial

from hotset.admission.in_flight import InFlight
from hotset.admission.outcomes import Outcome
from hotset.core.errors import AdmissionError, EngineUnavailableError, HotsetError, RequestError, RevokedError
from hotset.core.ids import RequestId
from hotset.core.ports import Withdrawal
from hotset.planner.exchanges import Exchange, submit_of
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.held_snapshot import HeldSnapshot
from hotset.planner.protocol import Abort, Accepted, Alive, Piece, Refused, StaleRoute, Waiting
from hotset.planner.worker_sights import WorkerSights
from hotset.routing.pick import PickSettings, pick
from hotset.sim.clocks import SkewedClock
from hotset.sim.network import Address, Network
from hotset.sim.world import Action

#: What an agent says of a request.
Answer = Waiting | Accepted | Refused | StaleRoute | Piece
#: Seconds, by the gateway's own clock.
#: A word to an agent that is not answered for so long is said again, or to another one.
UNANSWERED_S = 0.4
TRIES_MAX = 3
_PICK = PickSettings(fresh_s=1.0, lost_after_s=3.0)
#: A request that waits at an agent and hears nothing for so long is given up; longer than any agent lets it wait.
WAITING_S = 10.0
#: A running answer that brings nothing for so long is given up.
SILENT_S = 6.0
_REFUSING = (RequestError, AdmissionError)


class Relay:
    """The requests of one life of a gateway."""

    def __init__(
        self,
        network: Network,
        address: Address,
        clock: SkewedClock,
        held: HeldSnapshot,
        *,
        life: int,
        in_flight: InFlight,
        rules: FleetRules,
    ) -> None:
        self._network, self._address, self._clock, self._held = network, address, clock, held
        self._life, self._in_flight, self._rules = life, in_flight, rules
        self.sights = WorkerSights(clock, held)
        self._exchanges: dict[RequestId, Exchange] = {}
        #: Words sent to each agent.
        self._counts: Counter[Address] = Counter()

    @property
    def num_waiting(self) -> int:
        """Requests of clients of which nothing has come yet."""
        return sum(each.is_waiting and not each.asked.is_try for each in self._exchanges.values())

    # --- from a route to an agent ----------------------------------------------------------------------

    def begin(self, exchange: Exchange) -> None:
        """Take a request that has its route."""
        self._exchanges[exchange.asked.request] = exchange
        exchange.observer.bound(exchange.asked.request, exchange.key, exchange.bound, exchange.epoch)
        self._submit(exchange)

    def _submit(self, exchange: Exchange) -> None:
        """Hand a request to the worker that suits it best, of those that were not tried."""
        sights = self.sights.sights(self._exchanges.values())
        picked = pick(self._held.snapshot, exchange.key.tenant, exchange.bound.route, sights, _PICK)
        left = [worker for worker in picked if worker not in exchange.tried]
        if not left:
            self._fail(exchange, EngineUnavailableError())
            return
        worker = left[0]
        entry = self._held.snapshot.workers[worker]
        self._rules.sent(exchange.key.tenant, worker, self._held.epoch)
        exchange.agent, exchange.fence = entry.facts.address, entry.fence
        exchange.tried.append(worker)
        exchange.num_tries = 0
        exchange.submitted_at_s = self._clock.monotonic_s()
        self._counts[exchange.agent] += 1
        exchange.count = self._counts[exchange.agent]
        self._send_submit(exchange)

    def _send_submit(self, exchange: Exchange) -> None:
        """Say it, again where nothing came back, and at last to another agent."""
        if exchange.num_tries == TRIES_MAX:
            self._network.send(self._address, exchange.agent, Abort(exchange.asked.request))
            self._submit(exchange)
            return
        exchange.num_tries += 1
        submit = submit_of(exchange, self._life, self._clock.monotonic_s())
        self._network.send(self._address, exchange.agent, submit)
        self._set_timer(exchange, UNANSWERED_S, partial(self._send_submit, exchange))

    # --- what agents say -------------------------------------------------------------------------------

    def agents(self) -> list[Address]:
        """Return whom it is linked to: the workers of the snapshot, and others for as long as they serve something."""
        named = [entry.facts.address for entry in self._held.snapshot.workers.values()]
        return list(dict.fromkeys((*named, *(each.agent for each in self._exchanges.values() if each.agent))))

    def alive(self, agent: Address) -> Alive:
        """Return which requests an agent should hold for this gateway."""
        live = tuple(r for r, exchange in self._exchanges.items() if exchange.agent == agent)
        return Alive(self._life, self._counts[agent], live)

    def hear(self, source: Address, message: Answer) -> None:
        """Take an agent's word on a request, unless another agent is to serve it by now."""
        exchange = self._exchanges.get(message.request)
        if exchange is None or exchange.agent != source:
            return
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
        if self._held.epoch < epoch:
            exchange.wants_epoch = epoch
            self._held.ask_control()
            late = partial(self._fail, exchange, EngineUnavailableError())
            self._set_timer(exchange, 2.0, late)
            return
        exchange.wants_epoch = 0
        try:
            exchange.key = self._held.authenticate(exchange.asked.key_hash)
            exchange.bound = self._held.resolve(exchange.key, exchange.asked.model)
        except HotsetError as error:
            self._fail(exchange, error)
            return
        exchange.epoch = self._held.epoch
        exchange.observer.bound(exchange.asked.request, exchange.key, exchange.bound, exchange.epoch)
        exchange.tried.clear()
        self._submit(exchange)

    def _take_piece(self, exchange: Exchange, piece: Piece) -> None:
        """Hand pieces on in their order; what came before its turn waits for it."""
        if piece.position < exchange.num_pieces:
            return
        exchange.early[piece.position] = piece
        while (following := exchange.early.pop(exchange.num_pieces, None)) is not None:
            if exchange.is_waiting and (error := self._held.stop_reason(exchange)) is not None:
                self._fail(exchange, error)
                return
            exchange.is_waiting = False
            exchange.num_pieces += 1
            if following.token is not None:
                exchange.observer.token(exchange.asked.request, following.token, self._held.epoch)
                continue
            code = following.ended or ""
            self._end(exchange, Outcome.FAILED if code else Outcome.COMPLETED, code)
            return
        self._set_timer(exchange, SILENT_S, partial(self._fall_silent, exchange))

    # --- withdrawals -----------------------------------------------------------------------------------

    def snapshot_changed(self) -> None:
        """Stop what has not begun and may not any more; resolve anew what an agent asked that for."""
        self.sights.snapshot_changed()
        for exchange in list(self._exchanges.values()):
            if exchange.wants_epoch:
                self._resolve_again(exchange, exchange.wants_epoch)
            elif exchange.is_waiting and (error := self._held.stop_reason(exchange)) is not None:
                self._fail(exchange, error)

    def cut(self, epoch: int, withdrawal: Withdrawal) -> None:
        """End what was bound before this epoch and is covered."""
        for exchange in list(self._exchanges.values()):
            key, route = exchange.key, exchange.bound.route
            if exchange.epoch < epoch and withdrawal.covers(key.tenant, key.key, route):
                self._fail(exchange, RevokedError())

    # --- ends ------------------------------------------------------------------------------------------

    def leave(self, request: RequestId) -> None:
        """Nobody waits for the request any more; an unknown one is ignored."""
        if (exchange := self._exchanges.get(request)) is not None:
            self._end(exchange, Outcome.CANCELLED, "")

    def break_off(self) -> None:
        """The gateway is gone: every client sees its connection break."""
        for request, exchange in list(self._exchanges.items()):
            if exchange.timer is not None:
                exchange.timer.cancel()
            exchange.observer.ended(request, Outcome.FAILED, "connection_broken")
        self._exchanges.clear()

    def _fall_silent(self, exchange: Exchange) -> None:
        self._end(exchange, Outcome.FAILED, "silent")

    def _fail(self, exchange: Exchange, error: HotsetError) -> None:
        self._end(exchange, outcome_of(error) if exchange.is_waiting else Outcome.FAILED, error.code)

    def _end(self, exchange: Exchange, outcome: Outcome, code: str) -> None:
        request = exchange.asked.request
        del self._exchanges[request]
        if exchange.timer is not None:
            exchange.timer.cancel()
        if not exchange.asked.is_try:
            self._in_flight.leave(exchange.key.tenant)
        if exchange.agent and outcome is not Outcome.COMPLETED:
            self._network.send(self._address, exchange.agent, Abort(request))
        exchange.observer.ended(request, outcome, code)

    def _set_timer(self, exchange: Exchange, seconds: float, action: Action) -> None:
        if exchange.timer is not None:
            exchange.timer.cancel()
        what = f"{self._address} waits no more for {exchange.asked.request}"
        exchange.timer = self._clock.after(seconds, what, action)


def outcome_of(error: HotsetError) -> Outcome:
    """Return how a request that has not begun ends by an error."""
    return Outcome.REFUSED if isinstance(error, _REFUSING) else Outcome.FAILED
