"""What workers, gateways and control tell each other about a fleet: who is there, how busy, and what is meant for whom.

Plain values, encoded with msgspec. A worker registers with its `WorkerFacts` and gets a fence; from then on it sends a
`Heartbeat` a second, to control and to the gateways that ask. Control turns heartbeats into homes and publishes
`WorkerEntry`, `PoolEntry` and homes in the routing snapshot. A version's home is a worker where it is meant to be
hot or warm. Durations are seconds.
"""

from typing import Literal

import msgspec

from hotset.core.ids import Digest, EngineName, PoolName, TenantId, WorkerId

#: The pool of every base that needs no adding: it is shared, and in it are the workers and the tenants of no other.
DEFAULT_POOL = PoolName("default")

#: What an operator says of a worker. ``cordoned``: gateways pick it no more, and its versions get other homes; what it
#: was sent already it serves. ``draining``: as well, and its agent refuses what still comes; once it has no request
#: left it may be stopped.
WorkerState = Literal["serving", "cordoned", "draining"]
#: What a watchdog finds wrong with an engine: the base's probe ended with an error, brought numbers that are none,
#: other tokens than when the engine was fresh, or other log-probabilities; nothing came for too long; or a version
#: brought numbers that are none.
FlawCode = Literal["base_failed", "base_not_finite", "base_differs", "base_drifts", "silent", "version_not_finite"]
#: A dedicated pool serves one tenant.
PoolKind = Literal["shared", "dedicated"]


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself when it registers: anew for each start of its agent, and when its engine changes."""

    worker: WorkerId
    base: Digest
    #: The pool that its own configuration asks for; what an operator assigned in control counts more.
    pool: PoolName | None = None
    #: The highest rank that its slots take.
    rank_class: int
    #: Usable slots: distinct adapters that may be dispatched at once.
    num_slots: int
    #: Such as ``cpu-avx512_bf16``.
    hardware_class: str
    #: Such as ``embedded 0.1.0``.
    engine: str
    #: Tokens of prompt and answer together.
    model_len_max: int = 0
    #: Sequences in one step of its engine.
    num_sequences_max: int = 1
    #: Bytes that each of its slots takes, whatever is in it; 0 where the engine does not say.
    slot_bytes: int = 0
    #: Bytes of version files that its local store keeps beside those of versions in slots; null where it does not say.
    store_bytes: int | None = None
    #: Where gateways reach its agent: ``unix:/PATH`` or ``tls://HOST:PORT``; empty where it is in the same process.
    address: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one worker is at one moment, by its agent's own account."""

    worker: WorkerId
    #: The number that control gave at registration. Of two agents with one identity only the higher one counts.
    fence: int
    #: Counts up within a fence; one that is not above the last is late or repeated, and ignored.
    number: int
    #: Of the snapshot that the agent applies.
    snapshot_epoch: int = 0
    #: Whether its engine serves.
    is_ready: bool = False
    #: The agent was told to stop, or stops by itself: no new requests.
    is_leaving: bool = False
    #: Slots that are empty and meant for nothing.
    num_free_slots: int = 0
    #: Versions that serve from a slot.
    resident: tuple[EngineName, ...] = ()
    #: Versions on their way into a slot.
    loading: tuple[EngineName, ...] = ()
    #: Versions whose files are in its local store and which are in no slot.
    warm: tuple[EngineName, ...] = ()
    #: Requests in the engine, those that wait for a slot or a place, and the age of the oldest of the latter.
    num_running: int = 0
    num_waiting: int = 0
    oldest_wait_s: float = 0.0
    #: Requests that wait or run, by version; those of the bare base are not among them.
    in_flight: dict[EngineName, int] = {}
    #: What a load takes from the local store and from the trusted store; None until one was measured.
    warm_load_s: float | None = None
    cold_load_s: float | None = None


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """A version that a worker loads no more, since its engine went wrong soon after it was loaded.

    It is said until the snapshot has the version no more, once a fresh engine without it was found sound.
    """

    version: EngineName
    flaw: FlawCode
    #: Counts up in one worker, over its restarts too; suspicions with one number are of one incident.
    incident: int
    #: Of the version's bytes as the worker knew it then: what was suspected before a release is void after it.
    num_releases: int = 0


class WorkerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as the snapshot has it; one that control holds for lost is not in it."""

    facts: WorkerFacts
    pool: PoolName = DEFAULT_POOL
    state: WorkerState = "serving"
    #: Of the agent that may serve under this identity; an agent with a lower one serves nothing.
    fence: int = 0


class PoolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One pool that was added; `DEFAULT_POOL` needs no entry."""

    pool: PoolName
    base: Digest
    kind: PoolKind = "shared"
    #: The highest rank that its workers must take; None takes workers of any rank class.
    rank_class: int | None = None
    #: When new versions may come to this pool, such as ``mon-thu 09:00-16:00`` (UTC); None: at any time.
    release_schedule: str | None = None
    tenants: tuple[TenantId, ...] = ()
