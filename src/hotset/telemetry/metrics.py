"""One object with every metric; methods are named after what happened, so callers know no metric's name.

Labels are bounded: tenants are those of the snapshot up to a limit, lanes, outcomes, tiers, causes and codes
come from closed sets. A tenant that leaves the snapshot takes its series with it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hotset import __version__
from hotset.core.clock import Clock
from hotset.core.ids import TenantId
from hotset.core.messages import StepFacts
from hotset.core.on_call import Activity
from hotset.core.time_counts import quantile
from hotset.core.usage import UsageSums
from hotset.telemetry import names
from hotset.telemetry.batching import BatchEfficiency
from hotset.telemetry.instruments import CounterTable, GaugeTable, HistogramTable
from hotset.telemetry.measures import Measures
from hotset.telemetry.windows import MinuteCount, RecentTimes

_WORST_SHARE = 0.95
#: Distinct values a label from a closed set may take before the rest is `OTHER`; a guard, not a budget.
_LABEL_VALUES_MAX = 64


class Metrics(Collector):
    """Every metric of one process."""

    def __init__(self, clock: Clock, *, tenants_max: int = 200) -> None:
        self._clock = clock
        self._tenants_max = tenants_max
        self._tenants: frozenset[str] = frozenset()
        self._requests = CounterTable(names.REQUESTS)
        self._errors = CounterTable(names.ERRORS)
        self._refused = CounterTable(names.REFUSED)
        self._in_flight = GaugeTable(names.IN_FLIGHT)
        self._count_in_flight: Callable[[], int] = lambda: 0
        self._first_token = HistogramTable(names.FIRST_TOKEN)
        self._per_token = HistogramTable(names.PER_TOKEN)
        self._prediction_error = HistogramTable(names.PREDICTION_ERROR)
        self._queue = HistogramTable(names.QUEUE)
        self._load = HistogramTable(names.LOAD)
        self._lookups = CounterTable(names.LOOKUPS)
        self._prefetches = CounterTable(names.PREFETCHES)
        self._blob_fetches = CounterTable(names.BLOB_FETCHES)
        self._blob_fetched = CounterTable(names.BLOB_FETCHED)
        self._evictions = CounterTable(names.EVICTIONS)
        self._store_evictions = CounterTable(names.STORE_EVICTIONS)
        #: Whoever can say more at a scrape adds itself here.
        self.measures = Measures()
        self._step_adapters = HistogramTable(names.STEP_ADAPTERS)
        self._step_tokens = HistogramTable(names.STEP_TOKENS)
        self._batching = BatchEfficiency()
        self._batch_efficiency = GaugeTable(names.BATCH_EFFICIENCY)
        self._batch_efficiency.values.clear()
        self._worst = GaugeTable(names.WORST_TENANT)
        self._tokens = CounterTable(names.TOKENS)
        self._log_dropped = CounterTable(names.LOG_DROPPED)
        self._jobs = GaugeTable(names.JOBS)
        self._jobs_accepted = CounterTable(names.JOBS_ACCEPTED)
        self._job_attempts = CounterTable(names.JOB_ATTEMPTS)
        self._job_duration = HistogramTable(names.JOB_DURATION)
        self._identity_conflicts = CounterTable(names.IDENTITY_CONFLICTS)
        self._probes = CounterTable(names.PROBES)
        self._engines_ended = CounterTable(names.ENGINES_ENDED)
        self._build = GaugeTable(names.BUILD)
        self._build.set(1, (__version__,))
        #: What gateways and agents of this process count for usage reports; taken away by whoever keeps it.
        self.usage = UsageSums()
        #: What `top` shows of the last minute.
        self.recent_first_tokens = RecentTimes()
        self.recent = {name: MinuteCount() for name in ("requests", "refusals", "loads", "evictions")}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def apply_tenants(self, tenants: Iterable[TenantId]) -> None:
        """Make these the tenants that have series of their own; forget those that left."""
        known = frozenset(sorted(tenants)[: self._tenants_max])
        for gone in self._tenants - known:
            self._tokens.forget(gone)
            self._first_token.forget(gone)
            self._per_token.forget(gone)
            self._evictions.forget(gone, place=1)
            self._store_evictions.forget(gone, place=1)
            self.recent_first_tokens.forget(gone)
        self._tenants = known

    def request_ended(self, outcome: str, lane: str, code: str | None) -> None:
        """Count one request; `lane` is empty where none was decided, `code` is the error's or None."""
        self._requests.add((outcome, lane or "none"))
        self.recent["requests"].add(self._clock.monotonic_s())
        if code is not None:
            self._errors.add((_bounded(code, self._errors.values, 0),))

    def request_refused(self, reason: str) -> None:
        """Count one generation request that was refused, by the code of its error."""
        self._refused.add((_bounded(reason, self._refused.values, 0),))
        self.recent["refusals"].add(self._clock.monotonic_s())

    def page_refused(self, code: str) -> None:
        """Count a request for anything but a generation that ended with an error."""
        self._errors.add((_bounded(code, self._errors.values, 0),))

    def tokens_used(self, tenant: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count tokens of one request, whether or not it was completed."""
        shown = self._shown(tenant)
        self._tokens.add((shown, "prompt"), prompt_tokens)
        self._tokens.add((shown, "completion"), completion_tokens)

    def first_token(self, tenant: str, seconds: float) -> None:
        """Record one request's time to its first token, in seconds."""
        shown = self._shown(tenant)
        self._first_token.observe(seconds, (shown,))
        self.recent_first_tokens.add(shown, seconds, self._clock.monotonic_s())

    def per_token(self, tenant: str, seconds: float) -> None:
        """Record the seconds a token of one completed answer took, after the first."""
        self._per_token.observe(seconds, (self._shown(tenant),))

    def predicted(self, error_s: float) -> None:
        """Record by how many seconds a first token came later than predicted; negative for earlier."""
        self._prediction_error.observe(abs(error_s), ("late" if error_s > 0 else "early",))

    def step(self, step: StepFacts) -> None:
        """Take in what one step of an engine computed."""
        self._step_adapters.observe(step.num_adapters)
        self._step_tokens.observe(step.num_decodes)
        self._batching.add(step)

    def queued(self, lane: str, seconds: float) -> None:
        """Record one request's wait for dispatch, apart from loading, in seconds."""
        self._queue.observe(seconds, (lane,))

    def count_in_flight_by(self, count: Callable[[], int]) -> None:
        """Ask this, at every scrape, how many requests are in flight."""
        self._count_in_flight = count

    def lookup(self, tier: str) -> None:
        """Count in which tier (hot, warm, cold) a request's version was found."""
        self._lookups.add((_bounded(tier, self._lookups.values, 0),))

    def load_done(self, source_tier: str, rank: int, seconds: float) -> None:
        """Record one finished load: from which tier, of which rank, in how many seconds."""
        self._load.observe(seconds, (source_tier, names.rank_class(rank)))
        self.recent["loads"].add(self._clock.monotonic_s())

    def prefetched(self, step: str, outcome: str) -> None:
        """Count one step by which a version was brought in before anybody asked: ``done``, ``failed`` or ``used``."""
        self._prefetches.add((step, outcome))

    def blob_fetched(self, outcome: str, num_bytes: int) -> None:
        """Count one try to fetch a blob from control, ``done`` or ``failed``; called from other threads too."""
        self._blob_fetches.add((outcome,))
        self._blob_fetched.add((), num_bytes)

    def evicted(self, cause: str, victim: str) -> None:
        """Count one eviction by the policy's cause and the tenant that was charged for the slot, empty for nobody."""
        self._evictions.add((_bounded(cause, self._evictions.values, 0), self._shown(victim) if victim else "none"))
        self.recent["evictions"].add(self._clock.monotonic_s())

    def store_evicted(self, cause: str, victim: str) -> None:
        """Count one version whose files left the local store for others', likewise."""
        labels = (_bounded(cause, self._store_evictions.values, 0), self._shown(victim) if victim else "none")
        self._store_evictions.add(labels)

    def jobs_kept(self, counts: Mapping[str, int]) -> None:
        """Take in how many jobs are kept in each state; a state that is not in it has none."""
        for labels in list(self._jobs.values):
            self._jobs.set(0, labels)
        for state, count in counts.items():
            self._jobs.set(count, (state,))

    def job_accepted(self) -> None:
        """Count one request that was accepted as a job."""
        self._jobs_accepted.add(())

    def job_tried(self, outcome: str) -> None:
        """Count one try of a job, by how it ended."""
        self._job_attempts.add((outcome,))

    def job_ended(self, state: str, seconds: float) -> None:
        """Record a job's end, so many seconds after it was accepted."""
        self._job_duration.observe(seconds, (state,))

    def log_lines_dropped(self, count: int) -> None:
        """Count lost lines of the request log; called from its writing thread too."""
        self._log_dropped.add((), count)

    def activity(self) -> Activity:
        """Return what goes on now."""
        now_s = self._clock.monotonic_s()
        return Activity(
            in_flight=self._count_in_flight(),
            per_minute={name: count.count(now_s) for name, count in self.recent.items()},
            first_tokens=self.recent_first_tokens.counts(now_s),
            queue=self.measures.queue(),
            batching=self._batching.sums(),
        )

    def identity_conflict(self, role: str) -> None:
        """Count a process that asked to be one that is there already."""
        self._identity_conflicts.add((role,))

    def probed(self, subject: str, outcome: str) -> None:
        """Count a watchdog's probe, of the base or a version, by how it ended."""
        self._probes.add((subject, outcome))

    def engine_ended(self, reason: str) -> None:
        """Count an engine that ended before its time."""
        self._engines_ended.add((reason,))

    def collect(self) -> Iterator[Metric]:
        """Yield every metric (called by the registry when it is scraped)."""
        self._in_flight.set(self._count_in_flight())
        recent = self.recent_first_tokens.counts(self._clock.monotonic_s())
        self._worst.set(max((quantile(counts, _WORST_SHARE) for counts in recent.values()), default=0.0))
        efficiency = self._batching.ratio()
        if efficiency is not None:
            self._batch_efficiency.set(efficiency)
        for table in (
            self._requests,
            self._errors,
            self._refused,
            self._in_flight,
            self._first_token,
            self._per_token,
            self._prediction_error,
            self._queue,
            self._load,
            self._lookups,
            self._prefetches,
            self._blob_fetches,
            self._blob_fetched,
            self._evictions,
            self._store_evictions,
            self._batch_efficiency,
            self._step_adapters,
            self._step_tokens,
            self._worst,
            self._tokens,
            self._log_dropped,
            self._jobs,
            self._jobs_accepted,
            self._job_attempts,
            self._job_duration,
            self._identity_conflicts,
            self._probes,
            self._engines_ended,
            self._build,
        ):
            yield from table.families()
        yield from self.measures.families()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _shown(self, tenant: str) -> str:
        return tenant if tenant in self._tenants else names.OTHER


def _bounded(value: str, seen: dict[tuple[str, ...], float], place: int) -> str:
    if any(labels[place] == value for labels in seen) or len({labels[place] for labels in seen}) < _LABEL_VALUES_MAX:
        return value
    return names.OTHER
