"""Every metric name, label and request-log field, in one list.

Prometheus base units, no colons. Labels are bounded: what is not known in advance is counted as `OTHER`.
"""

from typing import Literal, NamedTuple

#: The value of a label whose real value is outside the bounded set.
OTHER = "other"

Kind = Literal["counter", "gauge", "histogram"]


class MetricName(NamedTuple):
    """One metric: its name without the counter's ``_total``, what it says, its labels and, for a histogram, edges."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    #: Upper edges of a histogram's buckets, without the infinite one.
    edges: tuple[float, ...] = ()


_WAITS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LOADS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_JOBS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)

REQUESTS = MetricName(
    "hotset_requests", "counter", "Requests that ended, by how and in which lane.", ("outcome", "lane")
)
ERRORS = MetricName("hotset_request_errors", "counter", "Requests that ended with an error, by code.", ("code",))
REFUSED = MetricName(
    "hotset_requests_refused",
    "counter",
    "Generation requests refused before anything ran, by the error's code.",
    ("reason",),
)
IN_FLIGHT = MetricName("hotset_requests_in_flight", "gauge", "Requests let in and not yet ended.")
FIRST_TOKEN = MetricName(
    "hotset_time_to_first_token_seconds",
    "histogram",
    "From the whole request body to the first non-empty delta.",
    ("tenant",),
    _WAITS_S,
)
PER_TOKEN = MetricName(
    "hotset_time_per_output_token_seconds",
    "histogram",
    "From the first non-empty delta to the end, over the tokens after the first, one value a completed request.",
    ("tenant",),
    _WAITS_S,
)
PREDICTION_ERROR = MetricName(
    "hotset_first_token_prediction_error_seconds",
    "histogram",
    "How far the worker's prediction of a first token was from it, for requests that waited or had a budget: late (it "
    "came later than predicted) or early. What waits is told the same prediction.",
    ("direction",),
    _WAITS_S,
)
QUEUE = MetricName(
    "hotset_queue_duration_seconds",
    "histogram",
    "Wait for dispatch, apart from loading.",
    ("lane",),
    _WAITS_S,
)
QUEUED = MetricName("hotset_queue_requests", "gauge", "Requests that wait at workers for a slot or a place.", ("lane",))
QUEUE_AGE = MetricName(
    "hotset_queue_age_seconds", "gauge", "How long the oldest request of those has waited.", ("lane",)
)
ADAPTER_QUEUE_AGE = MetricName(
    "hotset_adapter_queue_age_seconds",
    "gauge",
    "The same by version, for the ten whose oldest request has waited longest.",
    ("adapter",),
)
LOAD = MetricName(
    "hotset_adapter_load_duration_seconds",
    "histogram",
    "From the decision to load a version to its slot being ready.",
    ("source_tier", "rank_class"),
    _LOADS_S,
)
LOOKUPS = MetricName("hotset_adapter_lookups", "counter", "Requests by the tier their version was found in.", ("tier",))
PREFETCHES = MetricName(
    "hotset_adapter_prefetches",
    "counter",
    "Versions brought in before anybody asked, by step (fetch: into the local store; load: into an empty slot) and "
    "outcome: done, failed, and used once a request found it there.",
    ("step", "outcome"),
)
BLOB_FETCHES = MetricName(
    "hotset_blob_fetches",
    "counter",
    "Tries to fetch a blob of the trusted store from control, of a worker on another machine: done or failed.",
    ("outcome",),
)
BLOB_FETCHED = MetricName("hotset_blob_fetched_bytes", "counter", "Bytes that came by those fetches that were done.")
EVICTIONS = MetricName(
    "hotset_adapter_evictions",
    "counter",
    "Versions that left a slot, by cause: reserve (a tenant was owed it), borrow, own (for another version of the "
    "same tenant), withdrawn, orphan (its load came in too late), and by the tenant that was charged for the slot.",
    ("cause", "victim"),
)
STORE_EVICTIONS = MetricName(
    "hotset_store_evictions",
    "counter",
    "Versions whose files left a local store for others', by cause: reserve (their tenant's byte reserve was due), "
    "borrow, own (the same tenant's), and by the tenant that was charged for them.",
    ("cause", "victim"),
)
RESIDENT = MetricName(
    "hotset_adapter_resident_bytes",
    "gauge",
    "Bytes of versions by tier (hot: their own in slots, however wide these are; warm: in local stores, those in slots "
    "too) and by class of rank.",
    ("tier", "rank"),
)
SLOTS = MetricName(
    "hotset_slot_bytes",
    "gauge",
    "Bytes of engines' slots, empty or not, by class of the highest rank that they take.",
    ("rank_class",),
)
LARGEST = MetricName(
    "hotset_adapter_largest_bytes", "gauge", "Bytes of the ten largest versions of each tier.", ("tier", "adapter")
)
BATCH_EFFICIENCY = MetricName(
    "hotset_batch_efficiency_ratio",
    "gauge",
    "What engine steps of several adapters would have taken with one adapter, over what they took; prompts left out. "
    "Absent until steps of both kinds were seen.",
)
STEP_ADAPTERS = MetricName(
    "hotset_step_adapters", "histogram", "Distinct adapters in an engine step.", (), (0, 1, 2, 4, 8, 16, 32, 64)
)
STEP_TOKENS = MetricName(
    "hotset_step_tokens",
    "histogram",
    "Tokens generated in an engine step.",
    (),
    (0, 1, 2, 4, 8, 16, 32, 64, 128, 256),
)
SATURATION = MetricName(
    "hotset_pool_saturation_ratio",
    "gauge",
    "Requests that run or wait at a pool's workers over the places in their engines: above 1 there is a queue.",
    ("base", "pool"),
)
WORST_TENANT = MetricName(
    "hotset_worst_tenant_time_to_first_token_seconds",
    "gauge",
    "The longest 95th percentile of time to the first token of any tenant in the last minute.",
)
TOKENS = MetricName("hotset_tokens", "counter", "Tokens by tenant and type (prompt, completion).", ("tenant", "type"))
LOG_DROPPED = MetricName(
    "hotset_request_log_dropped", "counter", "Request-log lines lost because the disk could not keep up."
)
JOBS = MetricName("hotset_jobs", "gauge", "Jobs that are kept, by state.", ("state",))
JOBS_ACCEPTED = MetricName("hotset_jobs_accepted", "counter", "Requests accepted as jobs.")
JOB_ATTEMPTS = MetricName(
    "hotset_job_attempts",
    "counter",
    "Tries of jobs, by how they ended: completed, postpone (it has to wait), break (another try may go well), fail, "
    "lost (cancelled, or taken over by another gateway).",
    ("outcome",),
)
JOB_DURATION = MetricName(
    "hotset_job_duration_seconds",
    "histogram",
    "From a job's acceptance to its end, by how it ended: completed, failed, cancelled, expired.",
    ("state",),
    _JOBS_S,
)
IDENTITY_CONFLICTS = MetricName(
    "hotset_identity_conflicts",
    "counter",
    "Processes that asked control to be one that is there already, by role; each serves nothing.",
    ("role",),
)
PROBES = MetricName(
    "hotset_watchdog_probes",
    "counter",
    "Probes of engines, of the base or of a version just loaded, by how they ended: passed, failed (the engine is "
    "ended), unanswered (it was busy with others).",
    ("subject", "outcome"),
)
ENGINES_ENDED = MetricName(
    "hotset_engines_ended",
    "counter",
    "Engines that ended before their time, by why: gone (the process ended by itself), or what a watchdog found.",
    ("reason",),
)
WORKERS = MetricName(
    "hotset_workers",
    "gauge",
    "Workers by state: what operators said of them (serving, cordoned, draining), not_ready (no engine) or lost.",
    ("state",),
)
WORKERS_LOST = MetricName("hotset_workers_lost", "counter", "Times that a worker fell silent.")
HOME_MOVES = MetricName("hotset_home_moves", "counter", "Changes of versions' homes, by cause.", ("cause",))
HOMELESS = MetricName(
    "hotset_versions_without_home", "gauge", "Versions that may be asked for and are nowhere at home."
)
HOME_GAPS = MetricName("hotset_home_gaps", "counter", "Times that a version had no home.")
HOME_GAP_SECONDS = MetricName(
    "hotset_home_gap_seconds", "counter", "For how long versions had no home, over all of them."
)
SNAPSHOT_EPOCH = MetricName("hotset_snapshot_epoch", "gauge", "Number of the newest snapshot that control published.")
SNAPSHOT_LAG = MetricName(
    "hotset_snapshot_lag_seconds",
    "gauge",
    "For how long the holder of a role that is furthest behind has not acknowledged the newest snapshot.",
    ("role",),
)
QUARANTINES = MetricName(
    "hotset_quarantines", "counter", "Quarantines since control's start, by whom: operator or watchdog.", ("by",)
)
BUILD = MetricName("hotset_build_info", "gauge", "1, with the version as label.", ("version",))

METRICS: tuple[MetricName, ...] = (
    REQUESTS,
    ERRORS,
    REFUSED,
    IN_FLIGHT,
    FIRST_TOKEN,
    PER_TOKEN,
    PREDICTION_ERROR,
    QUEUE,
    QUEUED,
    QUEUE_AGE,
    ADAPTER_QUEUE_AGE,
    LOAD,
    LOOKUPS,
    PREFETCHES,
    BLOB_FETCHES,
    BLOB_FETCHED,
    EVICTIONS,
    STORE_EVICTIONS,
    RESIDENT,
    SLOTS,
    LARGEST,
    BATCH_EFFICIENCY,
    STEP_ADAPTERS,
    STEP_TOKENS,
    SATURATION,
    WORST_TENANT,
    TOKENS,
    LOG_DROPPED,
    JOBS,
    JOBS_ACCEPTED,
    JOB_ATTEMPTS,
    JOB_DURATION,
    IDENTITY_CONFLICTS,
    PROBES,
    ENGINES_ENDED,
    WORKERS,
    WORKERS_LOST,
    HOME_MOVES,
    HOMELESS,
    HOME_GAPS,
    HOME_GAP_SECONDS,
    SNAPSHOT_EPOCH,
    SNAPSHOT_LAG,
    QUARANTINES,
    BUILD,
)

#: Upper edges of rank classes; a label holds the class, never the rank itself.
RANK_CLASSES: tuple[int, ...] = (8, 16, 32, 64, 128)

#: What a log line may say beside its message, where the record carries it.
LOG_EXTRAS: tuple[str, ...] = (
    *("request_id", "worker", "fence", "base", "engine", "slots", "version", "tier", "seconds", "status", "reason"),
)

#: Fields of a structured log line.
LOG_FIELDS: tuple[str, ...] = ("at", "level", "room", "message", *LOG_EXTRAS, "error")


def rank_class(rank: int) -> str:
    """Return the label of the class that a rank falls into, such as ``16`` for 9 to 16."""
    for edge in RANK_CLASSES:
        if rank <= edge:
            return str(edge)
    return OTHER
