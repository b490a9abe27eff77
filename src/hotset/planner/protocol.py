"""What the nodes of a simulated fleet say to each other. Any of it may be lost, late or come twice.

Order is restored by numbers: a gateway counts what it sends to an agent, an agent the pieces of an answer. What a lost
message would leave behind is found by what is said again and again: a gateway's live requests, an agent's report, a
holder's epoch.
"""

from dataclasses import dataclass

from hotset.core.fleet import Heartbeat
from hotset.core.ids import EngineName, RequestId, WorkerId
from hotset.core.ports import Lane, Withdrawal, Work
from hotset.core.snapshot import RoutingSnapshot


@dataclass(frozen=True, slots=True)
class Submit:
    """Gateway to agent: serve this."""

    work: Work
    #: That the gateway resolved the route in.
    epoch: int
    #: Which life of the gateway sends it, and the how manieth word of that life to this agent it is.
    life: int
    count: int
    #: Of the worker, as the gateway's snapshot has it.
    fence: int = 0

    def __str__(self) -> str:
        return f"{self.work.request_id} {self.work.generate.engine_name} epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class Abort:
    """Gateway to agent: end this, wherever it stands."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Alive:
    """Gateway to agent, again and again: these of my requests live; whatever else you hold of mine has no reader."""

    life: int
    count: int
    requests: tuple[RequestId, ...]

    def __str__(self) -> str:
        return f"{self.life}.{self.count}: {len(self.requests)}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Agent to gateway, at once: I hold it."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Accepted:
    """Agent to gateway: it goes to the engine now."""

    request: RequestId
    lane: Lane


@dataclass(frozen=True, slots=True)
class Refused:
    """Agent to gateway: no, and nothing is held."""

    request: RequestId
    code: str
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StaleRoute:
    """Agent to gateway: what you resolved is not served any more; I am at this epoch."""

    request: RequestId
    epoch: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a simulated engine writes in place of a token's text: which bytes it came from. Empty for the base."""

    name: EngineName | None
    weights: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Agent to gateway: a token of an answer, or its end."""

    request: RequestId
    position: int
    token: Stamp | None = None
    #: Set on the last piece: empty where the answer is whole, else the code of an error.
    ended: str | None = None

    def __str__(self) -> str:
        return f"{self.request} {self.position} {self.ended if self.token is None else self.token.name}"


@dataclass(frozen=True, slots=True)
class Beat:
    """Agent to gateways and control, again and again."""

    heartbeat: Heartbeat
    #: Which life of the agent sends it.
    life: int

    def __str__(self) -> str:
        beat = self.heartbeat
        ready = "serves" if beat.is_ready else "down"
        num = f"{len(beat.resident)} hot, {beat.num_running} run, {beat.num_waiting} wait"
        return f"{beat.fence}.{beat.number} {ready}, {num}"


@dataclass(frozen=True, slots=True)
class Register:
    """Agent to control, until it is answered: I am this worker."""

    worker: WorkerId
    #: Which life of the agent sends it, and the how manieth of that life it is.
    life: int
    count: int
    #: Under which it serves, or served last; 0 where it never did.
    fence: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Control to agent, as the answer to this life's word of that number: serve under this fence."""

    life: int
    count: int
    fence: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Control to agent, likewise: another one is this worker; serve nothing."""

    life: int
    count: int


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Control to agent: I do not know you, who said that you serve under this fence."""

    fence: int


@dataclass(frozen=True, slots=True)
class Published:
    """Control to holders: use this snapshot; end what was withdrawn with `--cut`."""

    snapshot: RoutingSnapshot
    #: Withdrawals that cut, with the epoch that each came with.
    cuts: tuple[tuple[int, Withdrawal], ...] = ()
    #: Of the `Holds` that this answers; None where control speaks of its own accord.
    asked_at_s: float | None = None

    def __str__(self) -> str:
        return f"epoch {self.snapshot.epoch}, {len(self.cuts)} cuts"


@dataclass(frozen=True, slots=True)
class Holds:
    """Holder to control, again and again: I apply this epoch; which one is the newest?"""

    epoch: int
    #: By the holder's own clock; control hands it back, so that a late answer does not pass for a fresh one.
    asked_at_s: float
