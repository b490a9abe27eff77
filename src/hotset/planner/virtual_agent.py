"""A simulated agent: takes gateways' words in any order, applies snapshots, keeps an engine alive."""

from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.errors import EngineFailedError, EngineUnavailableError
from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, RequestId, WorkerId, engine_name
from hotset.core.ports import Lane
from hotset.core.snapshot import RoutingSnapshot
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.held_requests import HeldRequests
from hotset.planner.protocol import (
    Abort,
    Accepted,
    Alive,
    Beat,
    Fenced,
    Holds,
    Piece,
    Published,
    Refused,
    Rejected,
    Stamp,
    Submit,
    Unlinked,
    Waiting,
)
from hotset.planner.rules import demand
from hotset.planner.served_snapshot import ServedSnapshot
from hotset.planner.truth import Truth
from hotset.planner.virtual_life import VirtualLife
from hotset.planner.virtual_membership import VirtualMembership
from hotset.planner.virtual_store import VirtualStore
from hotset.planner.worker_view import heartbeat_of
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.network import Address, Network
from hotset.sim.world import World

#: Seconds, by the agent's own clock.
REPORT_EVERY_S = 0.5
_RESTART_PAUSE_S = 0.2


class VirtualAgent:
    """One worker's agent through all lives of its engine, and its own restarts."""

    def __init__(
        self,
        world: World,
        network: Network,
        address: Address,
        clock: SkewedClock,
        *,
        gateways: tuple[Address, ...],
        control: Address,
        base: Digest,
        shape: WorkerShape,
        truth: Truth,
        reviewer_keys: dict[str, Ed25519PublicKey],
        rules: FleetRules,
        worker: WorkerId | None = None,
    ) -> None:
        """Prepare; `start` begins. It says that it is `worker`, or, where that is None, what its address says."""
        self._world, self._network, self.address, self.clock = world, network, address, clock
        self._gateways, self._control, self._base = gateways, control, base
        self.shape, self._truth = shape, truth
        self.store = VirtualStore(truth, reviewer_keys, shape.calibration)
        self.life: VirtualLife | None = None
        self._rules = rules
        worker = WorkerId(address) if worker is None else worker
        self._membership = VirtualMembership(network, address, clock, worker=worker, control=control)
        self._timers = Timers(clock)
        self.is_up = False

    # --- up and down -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with nothing but the identity: no snapshot, no files, no engine."""
        self.is_up = True
        self._membership.begin()
        self._num_beats = 0
        self._served = ServedSnapshot(self._membership.worker, self._base)
        self._held = HeldRequests(self._gateways)
        self._network.attach(self.address, self._receive)
        self._start_engine()
        self._report()

    def crash(self) -> None:
        """End at once, and the engine with it; `start` brings both back."""
        self.is_up = False
        self._network.detach(self.address)
        self._timers.cancel_all()
        life, self.life = self.life, None
        if life is not None:
            life.stop()

    @property
    def epoch(self) -> int:
        """Of the snapshot that it applies."""
        return self._served.epoch

    @property
    def fence(self) -> int:
        """Under which it serves; 0 while it may not."""
        return self._membership.fence

    @property
    def num_requests(self) -> int:
        """Requests that it holds."""
        return len(self._held.requests)

    def _start_engine(self) -> None:
        self.store.open()
        start_s = self.shape.calibration.engine_start_s
        self._timers.after(start_s, f"{self.address} engine serves", self._serve)

    def _serve(self) -> None:
        self.life = VirtualLife(
            self._world,
            self.clock,
            self,
            subject=self.address,
            shape=self.shape,
            store=self.store,
            truth=self._truth,
        )
        self._served.permit(self.life)

    def life_ended(self) -> None:
        """Start another engine after a pause."""
        self.life = None
        held = list(self._held.requests)
        demand(not held, "I8", f"{self.address} holds {held} and has no engine")
        if self.is_up:
            self._timers.after(_RESTART_PAUSE_S, f"{self.address} starts another engine", self._start_engine)

    # --- what becomes of requests ----------------------------------------------------------------------

    def accepted(self, request: RequestId, lane: Lane, queue_s: float) -> None:
        """Tell the gateway that it goes to the engine."""
        self._tell(request, Accepted(request, lane))

    def refused(self, request: RequestId, code: str, retry_after_ms: int | None) -> None:
        """Tell the gateway no."""
        self._tell(request, Refused(request, code, retry_after_ms))
        self._held.end(request)

    def token(self, request: RequestId, stamp: Stamp) -> None:
        """Hand a token on."""
        self._tell(request, Piece(request, self._held.next_piece(request), stamp))

    def ended(self, request: RequestId, code: str) -> None:
        """Hand the end on."""
        self._tell(request, Piece(request, self._held.next_piece(request), ended=code))
        self._held.end(request)

    def _tell(self, request: RequestId, message: object) -> None:
        self._network.send(self.address, self._held.requests[request].gateway, message)

    # --- what it hears ---------------------------------------------------------------------------------

    def _receive(self, source: Address, message: object) -> None:
        match message:
            case Submit():
                self._submit(source, message)
            case Abort(request):
                self._abort(request)
            case Alive():
                self._abort_all(self._held.listed(source, message, self.clock.monotonic_s()))
            case Published(snapshot):
                self._apply(snapshot)
            case Fenced() | Rejected():
                if self._membership.hear(message):
                    self._shut_out()
            case Unlinked(fence):
                self._membership.unlinked(fence)
            case _:
                raise AssertionError(f"{self.address} does not know {message}")

    def _submit(self, source: Address, submit: Submit) -> None:
        work, request = submit.work, submit.work.request_id
        if request in self._held.requests:
            self._tell(request, Waiting(request))
            return
        if self._held.is_late(source, submit):
            return
        membership = self._membership
        if self.life is None or membership.fence < max(1, submit.fence):
            self._network.send(self.address, source, Refused(request, EngineUnavailableError.code))
            return
        if (answer := self._served.answer_against(submit)) is not None:
            self._network.send(self.address, source, answer)
            return
        self._rules.took(membership.worker, self.address, membership.fence, submit, self.epoch)
        self._held.begin(source, submit)
        self._tell(request, Waiting(request))
        self.life.submit(work, engine_name(work.route))

    def _shut_out(self) -> None:
        """Let go of everything: another agent is this worker."""
        for request, held in list(self._held.requests.items()):
            gone: object = Refused(request, EngineUnavailableError.code)
            if held.num_pieces:
                gone = Piece(request, self._held.next_piece(request), ended=EngineFailedError.code)
            self._tell(request, gone)
            self._abort(request)

    def _abort(self, request: RequestId) -> None:
        if request not in self._held.requests:
            return
        self._held.end(request)
        assert self.life is not None, f"{self.address} holds {request} without an engine"
        self.life.abort(request)

    def _abort_all(self, requests: Iterable[RequestId]) -> None:
        for request in requests:
            self._abort(request)

    def _apply(self, snapshot: RoutingSnapshot) -> None:
        if self._served.take(snapshot) and self.life is not None:
            self._served.permit(self.life)

    # --- what it says again and again ------------------------------------------------------------------

    def _report(self) -> None:
        membership = self._membership
        membership.serve_alone()
        self._num_beats += 1
        beat = Beat(self._heartbeat(), membership.life)
        if membership.fence:
            for gateway in self._gateways:
                self._network.send(self.address, gateway, beat)
        membership.tell_control(beat)
        self._network.send(self.address, self._control, Holds(self.epoch, self.clock.monotonic_s()))
        self._abort_all(self._held.without_reader(self.clock.monotonic_s()))
        self._timers.after(REPORT_EVERY_S, f"{self.address} reports", self._report)

    def _heartbeat(self) -> Heartbeat:
        worker, fence, number = self._membership.worker, self.fence, self._num_beats
        if self.life is None:
            return Heartbeat(worker=worker, fence=fence, number=number)
        residency, requests = self.life.residency, self.life.requests
        return heartbeat_of(residency, requests, worker, fence=fence, number=number, epoch=self.epoch)
