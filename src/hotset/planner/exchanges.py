"""One request at a simulated gateway: what was asked, what was bound, how far the answer is."""

from dataclasses import dataclass, field
from typing import Protocol

from hotset.admission.outcomes import Outcome
from hotset.core.ids import RequestId, TenantId, WorkerId, engine_name
from hotset.core.messages import Generate, Sampling
from hotset.core.ports import Work
from hotset.core.snapshot import KeyEntry
from hotset.planner.protocol import Piece, Stamp, Submit
from hotset.routing.resolve import Resolved
from hotset.sim.network import Address
from hotset.sim.world import Timer

#: What a request hears from a gateway that does not know whether its snapshot is the newest.
CONTROL_UNREACHABLE = "control_unreachable"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a simulated client asks for."""

    request: RequestId
    key_hash: str
    model: str
    input_tokens: int
    output_tokens: int
    budget_ms: int | None = None
    #: The time within which it is to be answered as a job; None: it is answered at once.
    job_within_s: float | None = None
    #: Whether it is a gateway's try of a job.
    is_try: bool = False


class Observer(Protocol):
    """Hears what a client would: what its name was taken for, each token, the one end."""

    def bound(self, request: RequestId, key: KeyEntry, bound: Resolved, epoch: int) -> None:
        """A route was chosen."""
        ...

    def token(self, request: RequestId, stamp: Stamp, epoch: int) -> None:
        """A token went out, from a gateway that applies this epoch."""
        ...

    def ended(self, request: RequestId, outcome: Outcome, code: str) -> None:
        """It is over."""
        ...


class Watcher(Observer, Protocol):
    """Hears of a request from its beginning."""

    def asked(self, asked: Asked, tenant: TenantId) -> None:
        """Somebody asks."""
        ...


@dataclass(slots=True, eq=False)
class Exchange:
    """One request from its route to its end, as its gateway keeps it."""

    asked: Asked
    key: KeyEntry
    bound: Resolved
    #: That the route was resolved in.
    epoch: int
    began_at_s: float
    #: Who is told what becomes of it.
    observer: Observer
    #: Where it was sent last, and to which workers at all.
    agent: Address = ""
    fence: int = 0
    tried: list[WorkerId] = field(default_factory=list[WorkerId])
    num_tries: int = 0
    submitted_at_s: float = 0.0
    count: int = 0
    #: Whether no piece of the answer has come yet.
    is_waiting: bool = True
    #: The epoch that the agent wants it resolved in anew; 0 where it does not.
    wants_epoch: int = 0
    num_pieces: int = 0
    #: Pieces that came before their turn.
    early: dict[int, Piece] = field(default_factory=dict[int, Piece])
    timer: Timer | None = None


def submit_of(exchange: Exchange, life: int, now_s: float) -> Submit:
    """Return what an agent is told of a request, with what is left of its budget.

    Args:
        exchange: The request, with the count of this word.
        life: Of the gateway.
        now_s: By the gateway's clock.
    """
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
        left_ms = max(1, asked.budget_ms - int(1000 * (now_s - exchange.began_at_s)))
    work = Work(asked.request, tenant, exchange.key.key, exchange.bound.route, generate, left_ms)
    return Submit(work, exchange.epoch, life, exchange.count, exchange.fence)
