"""What control and the holders of its snapshots, gateways and workers, say to each other over one link.

A holder begins with `Register`; control answers `Registered`, or `Rejected` and closes. From then on control sends
every newer snapshot: the `Records` that the holder lacks, then `Current` without them; the holder answers `Applied`.
A worker sends `FactsNow` once its engine serves and gets a `Fence`, and `BeatNow` every second.

Both send what tenants used in `UsageNow`, again on each new link until a `UsageKept` says that it counts. Control asks
for what only holders know, when a person wants to see it: `AskActivity`, `AskRequest`, `AskUsage`; each is answered
under the number of the question. A gateway that ends says `Leaving`.

A worker that lacks a blob asks for a grant of it: `GrantWanted`, answered by `Granted` or `NotGranted`. It shows the
grant as the first word of a link of its own, `Fetch`, and hears `Registered`, then `Piece` after `Piece` and `Whole`,
or `Rejected`: so what is large is in no snapshot's and no heartbeat's way.
"""

import msgspec

from hotset.core.fleet import Heartbeat, Suspicion, WorkerFacts
from hotset.core.ids import Digest, EngineName, RequestId
from hotset.core.on_call import Activity, RequestAtWorker, RequestEntry
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.usage import UsageBatch
from hotset.core.versions import VersionRecord
from hotset.links.peers import Peer


class Register(msgspec.Struct, frozen=True, array_like=True, tag="register"):
    """A holder's first word."""

    protocol: int
    me: Peer
    #: Of this start of the process; another one under the same name is another process.
    instance: str
    #: The last fence that a worker was given, by its own folder; 0 where it never was, and for gateways.
    fence: int = 0


class Applied(msgspec.Struct, frozen=True, array_like=True, tag="applied"):
    """The holder applies the snapshot of this epoch from now on: that which came, or a newer one that it has."""

    epoch: int


class FactsNow(msgspec.Struct, frozen=True, array_like=True, tag="facts"):
    """What the worker is, now that its engine serves."""

    facts: WorkerFacts


class BeatNow(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """How the worker is, for choosing and for people."""

    heartbeat: Heartbeat
    report: WorkerReport
    #: Versions that its watchdog suspects.
    suspicions: tuple[Suspicion, ...] = ()


class UsageNow(msgspec.Struct, frozen=True, array_like=True, tag="usage"):
    """What tenants used at this process, and control did not yet say that it counts."""

    batch: UsageBatch


class ActivityTold(msgspec.Struct, frozen=True, array_like=True, tag="activity_told"):
    """What went on here in the last minute."""

    number: int
    activity: Activity


class RequestTold(msgspec.Struct, frozen=True, array_like=True, tag="request_told"):
    """What is known here of a request: a gateway's entry, a worker's memory, or neither."""

    number: int
    entry: RequestEntry | None = None
    at_worker: RequestAtWorker | None = None


class UsageTold(msgspec.Struct, frozen=True, array_like=True, tag="usage_told"):
    """All that was used here counts with control by now, or not."""

    number: int
    is_all_kept: bool


class Leaving(msgspec.Struct, frozen=True, array_like=True, tag="leaving"):
    """A gateway's last word: it ends because it was told to, and has nothing left to say."""


class Registered(msgspec.Struct, frozen=True, array_like=True, tag="registered"):
    """Control takes the holder."""

    me: Peer


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="rejected"):
    """Control does not take the holder; it may ask again later."""

    code: str
    message: str


class Fence(msgspec.Struct, frozen=True, array_like=True, tag="fence"):
    """The number under which the worker serves from now on."""

    fence: int


class Records(msgspec.Struct, frozen=True, array_like=True, tag="records"):
    """Versions that the next snapshot names."""

    records: dict[EngineName, VersionRecord]


class Current(msgspec.Struct, frozen=True, array_like=True, tag="current"):
    """The newest snapshot, with the names of its versions in place of their records."""

    snapshot: RoutingSnapshot
    versions: tuple[EngineName, ...]


class GrantWanted(msgspec.Struct, frozen=True, array_like=True, tag="grant_wanted"):
    """The worker lacks a blob."""

    digest: Digest


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="granted"):
    """The worker may read a blob, and no other one, for a short time."""

    digest: Digest
    grant: str


class NotGranted(msgspec.Struct, frozen=True, array_like=True, tag="not_granted"):
    """The worker may not, or the blob is not there."""

    digest: Digest
    message: str


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag="fetch"):
    """A worker's first and only word on a link for one blob."""

    protocol: int
    me: Peer
    grant: str
    #: Bytes that it has already, from the blob's beginning.
    offset: int = 0


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """The next bytes of a blob."""

    content: bytes


class Whole(msgspec.Struct, frozen=True, array_like=True, tag="whole"):
    """There are no more."""


class UsageKept(msgspec.Struct, frozen=True, array_like=True, tag="usage_kept"):
    """Every batch of this stream up to this number counts, and need not be told again."""

    stream: str
    number: int


class AskActivity(msgspec.Struct, frozen=True, array_like=True, tag="ask_activity"):
    """What went on in the last minute?"""

    number: int


class AskRequest(msgspec.Struct, frozen=True, array_like=True, tag="ask_request"):
    """What became of this request?"""

    number: int
    request: RequestId


class AskUsage(msgspec.Struct, frozen=True, array_like=True, tag="ask_usage"):
    """Tell at once what tenants used, and say when all of it counts."""

    number: int


Ask = AskActivity | AskRequest | AskUsage
Told = ActivityTold | RequestTold | UsageTold
ToControl = Register | Applied | FactsNow | BeatNow | UsageNow | Told | Leaving | GrantWanted | Fetch
FromControl = Registered | Rejected | Fence | Records | Current | UsageKept | Ask | Granted | NotGranted | Piece | Whole
