"""The worker plane: what a gateway and an agent say to each other over one link.

The gateway begins with `Greeting`, the agent answers `Welcome`, or `Unwelcome` and closes. Then many requests share the
link, each under a stream number that the gateway gives: `Submit`; `Waits` where it is not dispatched at once;
`Accepted` or `Refused`; `Batch` after `Batch` until one ends with the engine's last event. `Abort` ends one earlier and
is confirmed by `Aborted`. The agent has at most `WINDOW` batches of a stream under way: it goes on as `Taken` says how
many were read. Budgets are milliseconds that are left. A `Beat` comes every second and on change.
"""

import msgspec

from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, WorkerId
from hotset.core.messages import EngineEvent
from hotset.core.ports import Lane, Work
from hotset.links.peers import Peer

#: Of another number, a peer speaks another language.
PROTOCOL = 3
#: Batches of one stream that may be sent and not yet read.
WINDOW = 32


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="greeting"):
    """The gateway's first word."""

    protocol: int
    me: Peer
    #: The worker it wants, and the least fencing number that it takes.
    worker: WorkerId
    fence: int


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """Begin a request."""

    stream: int
    work: Work


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """So many more batches of a stream were read."""

    stream: int
    num_batches: int


class Abort(msgspec.Struct, frozen=True, array_like=True, tag="abort"):
    """End a request, accepted or not."""

    stream: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The agent's first word: who it is."""

    me: Peer
    base: Digest
    fence: int


class Unwelcome(msgspec.Struct, frozen=True, array_like=True, tag="unwelcome"):
    """The agent's only word to whom it does not serve."""

    reason: str


class Waits(msgspec.Struct, frozen=True, array_like=True, tag="waits"):
    """The request waits, from its arrival on; see `core.ports.Waiting`."""

    stream: int
    lane: Lane
    expected_ms: int | None


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted"):
    """The request is dispatched: its events follow."""

    stream: int
    lane: Lane
    load_seconds: float


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The request ended before it began; a leaf of the error tree by its code."""

    stream: int
    code: str
    message: str
    param: str | None = None
    retry_after_ms: int | None = None
    #: With ``stale_route``: the epoch that the gateway needs.
    epoch: int | None = None


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch"):
    """Events of one request, in order; none is the end where the engine gave no last event."""

    stream: int
    events: list[EngineEvent]


class Aborted(msgspec.Struct, frozen=True, array_like=True, tag="aborted"):
    """An aborted request no longer runs."""

    stream: int


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """How the worker is now."""

    heartbeat: Heartbeat


ToWorker = Greeting | Submit | Taken | Abort
FromWorker = Welcome | Unwelcome | Waits | Accepted | Refused | Batch | Aborted | Beat
