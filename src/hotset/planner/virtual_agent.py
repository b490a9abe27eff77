"""A simulated agent: takes gateways' words in any order, applies snapshots, keeps an engine alive.

What it keeps of a request is its gateway, that gateway's life and the number of the word that brought it, so that a
word that comes late or twice starts nothing that its gateway does not wait for.
"""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.errors import EngineUnavailableError, ModelNotFoundError
from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, EngineName, RequestId, WorkerId, engine_name
from hotset.core.ports import Lane
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.planner.effect_runner import WorkerShape
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
    Stamp,
    Submit,
    Waiting,
)
from hotset.planner.rules import demand
from hotset.planner.truth import Truth
from hotset.planner.virtual_life import VirtualLife
from hotset.planner.virtual_store import VirtualStore
from hotset.sim.clocks import SkewedClock, Timers
from hotset.sim.network import Address, Network
from hotset.sim.world import World

#: Seconds, by the agent's own clock.
REPORT_EVERY_S = 0.5
#: A gateway that says nothing for so long has no reader left.
GATEWAY_SILENT_S = 3.0
_RESTART_PAUSE_S = 0.2


@dataclass(slots=True)
class _Held:
    """A request that this agent holds, and for whom."""

    gateway: Address
    life: int
    count: int
    num_pieces: int = 0


@dataclass(slots=True)
class _Reader:
    """What a gateway said last: its life, the number of its last list, which of its requests live, and when."""

    life: int
    count: int
    live: frozenset[RequestId]
    heard_at_s: float


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
    ) -> None:
        self._world, self._network, self.address, self.clock = world, network, address, clock
        self._gateways, self._control, self._base = gateways, control, base
        self.shape, self._truth = shape, truth
        self.store = VirtualStore(truth, reviewer_keys, shape.calibration)
        self.life: VirtualLife | None = None
        #: Grows with every start; of two agents with one identity the higher one counts.
        self._fence = 0
        self._timers = Timers(clock)
        self.is_up = False
        self.start()

    # --- up and down -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with nothing but the identity: no snapshot, no files, no engine."""
        self.is_up = True
        self._fence += 1
        self._num_beats = 0
        self._snapshot = RoutingSnapshot()
        self._records: dict[EngineName, VersionRecord] = {}
        self._held: dict[RequestId, _Held] = {}
        #: What was held and is over, until its gateway's list shows that no copy of its word is still under way.
        self._over: dict[RequestId, _Held] = {}
        self._readers: dict[Address, _Reader] = {}
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
        return self._snapshot.epoch

    @property
    def num_requests(self) -> int:
        """Requests that it holds."""
        return len(self._held)

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
        self._permit(self.life)

    def life_ended(self) -> None:
        """Start another engine after a pause."""
        self.life = None
        demand(not self._held, "I8", f"{self.address} holds {list(self._held)} and has no engine")
        if self.is_up:
            self._timers.after(_RESTART_PAUSE_S, f"{self.address} starts another engine", self._start_engine)

    # --- what becomes of requests ----------------------------------------------------------------------

    def accepted(self, request: RequestId, lane: Lane) -> None:
        """Tell the gateway that it goes to the engine."""
        self._tell(request, Accepted(request, lane))

    def refused(self, request: RequestId, code: str, retry_after_ms: int | None) -> None:
        """Tell the gateway no."""
        self._tell(request, Refused(request, code, retry_after_ms))
        self._over[request] = self._held.pop(request)

    def token(self, request: RequestId, stamp: Stamp) -> None:
        """Hand a token on."""
        held = self._held[request]
        self._tell(request, Piece(request, held.num_pieces, stamp))
        held.num_pieces += 1

    def ended(self, request: RequestId, code: str) -> None:
        """Hand the end on."""
        self._tell(request, Piece(request, self._held[request].num_pieces, ended=code))
        self._over[request] = self._held.pop(request)

    def _tell(self, request: RequestId, message: object) -> None:
        self._network.send(self.address, self._held[request].gateway, message)

    # --- what it hears ---------------------------------------------------------------------------------

    def _receive(self, source: Address, message: object) -> None:
        match message:
            case Submit():
                self._submit(source, message)
            case Abort(request):
                self._abort(request)
            case Alive():
                self._mind_reader(source, message)
            case Published(snapshot):
                self._apply(snapshot)
            case _:
                raise AssertionError(f"{self.address} does not know {message}")

    def _submit(self, source: Address, submit: Submit) -> None:
        work, name = submit.work, engine_name(submit.work.route)
        request = work.request_id
        if request in self._held:
            self._tell(request, Waiting(request))
            return
        if request in self._over or self._is_stale(source, submit):
            return
        if name is not None and name not in self._records:
            answer: object = Refused(request, EngineUnavailableError.code)
            if submit.epoch < self.epoch:
                answer = StaleRoute(request, self.epoch)
            elif submit.epoch == self.epoch:
                answer = Refused(request, ModelNotFoundError.code)
            self._network.send(self.address, source, answer)
            return
        if self.life is None or work.route.base != self._base:
            self._network.send(self.address, source, Refused(request, EngineUnavailableError.code))
            return
        self._held[request] = _Held(source, submit.life, submit.count)
        self._tell(request, Waiting(request))
        self.life.submit(work, name)

    def _is_stale(self, source: Address, submit: Submit) -> bool:
        """Whether the gateway has said since that nobody waits for this any more."""
        reader = self._readers.get(source)
        if reader is None or submit.life > reader.life:
            return False
        is_before = submit.life < reader.life or submit.count <= reader.count
        return is_before and submit.work.request_id not in reader.live

    def _abort(self, request: RequestId) -> None:
        if request not in self._held:
            return
        self._over[request] = self._held.pop(request)
        assert self.life is not None, f"{self.address} holds {request} without an engine"
        self.life.abort(request)

    def _mind_reader(self, gateway: Address, alive: Alive) -> None:
        """End what the gateway sent before this list and does not name in it."""
        last = self._readers.get(gateway)
        if last is not None and (alive.life, alive.count) < (last.life, last.count):
            return
        live = frozenset(alive.requests)
        self._readers[gateway] = _Reader(alive.life, alive.count, live, self.clock.monotonic_s())
        for request, held in list(self._held.items()):
            if _is_done_with(gateway, alive, request, held):
                self._abort(request)
        self._over = {r: held for r, held in self._over.items() if not _is_done_with(gateway, alive, r, held)}

    def _apply(self, snapshot: RoutingSnapshot) -> None:
        if snapshot.epoch > self.epoch:
            self._snapshot = snapshot
            self._records = {name: r for name, r in snapshot.versions.items() if r.base == self._base}
            if self.life is not None:
                self._permit(self.life)

    def _permit(self, life: VirtualLife) -> None:
        life.permit(self._records, self._snapshot.quotas, is_frozen=self._snapshot.is_frozen)

    # --- what it says again and again ------------------------------------------------------------------

    def _report(self) -> None:
        self._num_beats += 1
        worker = WorkerId(self.address)
        if self.life is None:
            heartbeat = Heartbeat(worker=worker, fence=self._fence, number=self._num_beats)
        else:
            heartbeat = self.life.heartbeat(worker, self._fence, self._num_beats, self.epoch)
        for listener in (*self._gateways, self._control):
            self._network.send(self.address, listener, Beat(heartbeat))
        self._network.send(self.address, self._control, Holds(self.epoch, self.clock.monotonic_s()))
        self._drop_silent_readers()
        self._timers.after(REPORT_EVERY_S, f"{self.address} reports", self._report)

    def _drop_silent_readers(self) -> None:
        now_s = self.clock.monotonic_s()
        for gateway in self._gateways:
            reader = self._readers.setdefault(gateway, _Reader(0, 0, frozenset(), now_s))
            if now_s - reader.heard_at_s < GATEWAY_SILENT_S:
                continue
            for request, held in list(self._held.items()):
                if held.gateway == gateway:
                    self._abort(request)


def _is_done_with(gateway: Address, alive: Alive, request: RequestId, held: _Held) -> bool:
    """Whether a gateway's list covers a request and does not name it."""
    is_covered = held.gateway == gateway and (held.life, held.count) <= (alive.life, alive.count)
    return is_covered and request not in alive.requests
