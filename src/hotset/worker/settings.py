"""The worker's settings, filled by `cli.config`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How an agent runs its engine."""

    #: Bytes of version files kept in the local store beside those of versions in slots.
    warm_bytes_max: int = 4 << 30
    #: Bytes of the trusted store that a worker keeps which fetches them from control; see docs/fleet.md.
    fetched_bytes_max: int = 16 << 30
    #: Longest wait of one request for its version's slot, fetch and load together.
    load_timeout_s: float = 120.0
    #: Longest single answer of the engine to a load, unload or count before its outcome counts as lost.
    effect_timeout_s: float = 60.0
    #: A version whose load failed is refused for this long without another try.
    load_retry_s: float = 5.0
    #: Sequences kept in the engine at a time, so that the fair queue decides who is next; 0 is what the engine runs.
    engine_sequences_max: int = 0
    #: Distinct adapters kept in the engine at a time; 0: what a sweep found to pay, or where there is none all slots.
    distinct_adapters_max: int = 0
    #: How long a sweep at the first start of an engine may measure how many distinct adapters pay; 0: no sweep. What it
    #: found is kept for the next starts.
    distinct_adapters_sweep_s: float = 0.0
    #: Requests that may wait for a slot or for a place in the engine; of one tenant at most as many as are left.
    waiting_max: int = 2048
    #: Loads that one tenant's requests may cause in a minute where its quota says nothing of it.
    loads_per_minute: float = 240.0
    #: How long a request of a gateway that has a newer snapshot may wait for it to arrive here as well.
    snapshot_wait_s: float = 2.0
    #: Milliseconds of every second that loads may keep the engine from stepping; 1000 bounds nothing.
    stall_ms_per_s: float = 500.0
    #: What becomes of requests that run in a lent slot whose owner needs it: they finish, or are cut after `reclaim_s`.
    reclaim_policy: Literal["finish", "cut"] = "finish"
    #: How long an owner waits for its slot before what runs there is cut, where the policy says so.
    reclaim_s: float = 30.0
    #: An engine that runs requests and brings nothing of any of them for so long hangs: it is ended and started again.
    stall_timeout_s: float = 300.0
    #: How often the base's answer is compared with what it was when the engine was fresh, beside once after each
    #: version's first load; 0: never.
    watchdog_interval_s: float = 30.0
    #: First pause before a dead engine is started again; it doubles up to the longest.
    restart_pause_min_s: float = 0.5
    #: The longest of these pauses.
    restart_pause_max_s: float = 30.0
    #: How long running requests may go on once the agent is told to stop.
    drain_timeout_s: float = 30.0
    #: Check residency's invariants after every event. Cheap up to some hundred requests; always on in tests.
    check_invariants: bool = False
