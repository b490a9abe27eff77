"""What a simulated agent keeps of the requests that it holds, and of the gateways that sent them.

Of a request that is its gateway, that gateway's life and the number of the word that brought it, so that a word that
comes late or twice starts nothing that its gateway does not wait for.
"""

from dataclasses import dataclass

from hotset.core.ids import RequestId
from hotset.planner.protocol import Alive, Submit
from hotset.sim.network import Address

#: A gateway that says nothing for so long has no reader left; seconds.
GATEWAY_SILENT_S = 3.0


@dataclass(slots=True)
class Held:
    """A request that this agent holds, and for whom."""

    gateway: Address
    life: int
    count: int
    num_pieces: int = 0

    def is_done_with(self, gateway: Address, alive: Alive, request: RequestId) -> bool:
        """Whether a gateway's list covers the request and does not name it."""
        is_covered = self.gateway == gateway and (self.life, self.count) <= (alive.life, alive.count)
        return is_covered and request not in alive.requests


@dataclass(slots=True)
class _Reader:
    """What a gateway said last: its life, the number of its last list, which of its requests live, and when."""

    life: int
    count: int
    live: frozenset[RequestId]
    heard_at_s: float


class HeldRequests:
    """The requests of one life of an agent."""

    def __init__(self, gateways: tuple[Address, ...]) -> None:
        self._gateways = gateways
        self.requests: dict[RequestId, Held] = {}
        #: What was held and is over, until its gateway's list shows that no copy of its word is still under way.
        self._over: dict[RequestId, Held] = {}
        self._readers: dict[Address, _Reader] = {}

    def begin(self, gateway: Address, submit: Submit) -> None:
        """Hold a request from now on."""
        self.requests[submit.work.request_id] = Held(gateway, submit.life, submit.count)

    def next_piece(self, request: RequestId) -> int:
        """Return the number of the next piece of its answer."""
        held = self.requests[request]
        held.num_pieces += 1
        return held.num_pieces - 1

    def end(self, request: RequestId) -> None:
        """It is over."""
        self._over[request] = self.requests.pop(request)

    def is_late(self, gateway: Address, submit: Submit) -> bool:
        """Whether a word comes for what is over, or for what its gateway has since said that nobody waits for."""
        if submit.work.request_id in self._over:
            return True
        reader = self._readers.get(gateway)
        if reader is None or submit.life > reader.life:
            return False
        is_before = submit.life < reader.life or submit.count <= reader.count
        return is_before and submit.work.request_id not in reader.live

    def listed(self, gateway: Address, alive: Alive, now_s: float) -> list[RequestId]:
        """Take a gateway's list; return what it sent before and does not name in it."""
        last = self._readers.get(gateway)
        if last is not None and (alive.life, alive.count) < (last.life, last.count):
            return []
        self._readers[gateway] = _Reader(alive.life, alive.count, frozenset(alive.requests), now_s)
        self._over = {r: held for r, held in self._over.items() if not held.is_done_with(gateway, alive, r)}
        return [r for r, held in self.requests.items() if held.is_done_with(gateway, alive, r)]

    def without_reader(self, now_s: float) -> list[RequestId]:
        """Return what gateways sent that fell silent."""
        silent = {gateway for gateway in self._gateways if self._is_silent(gateway, now_s)}
        return [request for request, held in self.requests.items() if held.gateway in silent]

    def _is_silent(self, gateway: Address, now_s: float) -> bool:
        reader = self._readers.setdefault(gateway, _Reader(0, 0, frozenset(), now_s))
        return now_s - reader.heard_at_s >= GATEWAY_SILENT_S
