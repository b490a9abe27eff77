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
from hotset.telemetry.instruments import CounterTable
from hotset.telemetry.measures import Measures
from hotset.telemetry.tables import MetricTables
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
        self._tables = MetricTables()
        self._count_in_flight: Callable[[], int] = lambda: 0
        #: Whoever can say more at a scrape adds itself here.
        self.measures = Measures()
        self._batching = BatchEfficiency()
        self._tables.build.set(1, (__version__,))
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
            self._tables.tokens.forget(gone)
            self._tables.first_token.forget(gone)
            self._tables.per_token.forget(gone)
            self._tables.evictions.forget(gone, place=1)
            self._tables.store_evictions.forget(gone, place=1)
            self.recent_first_tokens.forget(gone)
        self._tenants = known

    def request_ended(self, outcome: str, lane: str, code: str | None) -> None:
        """Count one request; `lane` is empty where none was decided, `code` is the error's or None."""
        self._tables.requests.add((outcome, lane or "none"))
        self.recent["requests"].add(self._clock.monotonic_s())
        if code is not None:
            self._tables.errors.add((_bounded(code, self._tables.errors),))

    def request_refused(self, reason: str) -> None:
        """Count one generation request that was refused, by the code of its error."""
        self._tables.refused.add((_bounded(reason, self._tables.refused),))
        self.recent["refusals"].add(self._clock.monotonic_s())

    def page_refused(self, code: str) -> None:
        """Count a request for anything but a generation that ended with an error."""
        self._tables.errors.add((_bounded(code, self._tables.errors),))

    def tokens_used(self, tenant: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count tokens of one request, whether or not it was completed."""
        shown = self._shown(tenant)
        self._tables.tokens.add((shown, "prompt"), prompt_tokens)
        self._tables.tokens.add((shown, "completion"), completion_tokens)

    def first_token(self, tenant: str, seconds: float) -> None:
        """Record one request's time to its first token, in seconds."""
        shown = self._shown(tenant)
        self._tables.first_token.observe(seconds, (shown,))
        self.recent_first_tokens.add(shown, seconds, self._clock.monotonic_s())

    def per_token(self, tenant: str, seconds: float) -> None:
        """Record the seconds a token of one completed answer took, after the first."""
        self._tables.per_token.observe(seconds, (self._shown(tenant),))

    def predicted(self, error_s: float) -> None:
        """Record by how many seconds a first token came later than predicted; negative for earlier."""
        self._tables.prediction_error.observe(abs(error_s), ("late" if error_s > 0 else "early",))

    def step(self, step: StepFacts) -> None:
        """Take in what one step of an engine computed."""
        self._tables.step_adapters.observe(step.num_adapters)
        self._tables.step_tokens.observe(step.num_decodes)
        self._batching.add(step)

    def queued(self, lane: str, seconds: float) -> None:
        """Record one request's wait for dispatch, apart from loading, in seconds."""
        self._tables.queue.observe(seconds, (lane,))

    def count_in_flight_by(self, count: Callable[[], int]) -> None:
        """Ask this, at every scrape, how many requests are in flight."""
        self._count_in_flight = count

    def lookup(self, tier: str) -> None:
        """Count in which tier (hot, warm, cold) a request's version was found."""
        self._tables.lookups.add((_bounded(tier, self._tables.lookups),))

    def load_done(self, source_tier: str, rank: int, seconds: float) -> None:
        """Record one finished load: from which tier, of which rank, in how many seconds."""
        self._tables.load.observe(seconds, (source_tier, names.rank_class(rank)))
        self.recent["loads"].add(self._clock.monotonic_s())

    def prefetched(self, step: str, outcome: str) -> None:
        """Count one step by which a version was brought in before anybody asked: ``done``, ``failed`` or ``used``."""
        self._tables.prefetches.add((step, outcome))

    def blob_fetched(self, outcome: str, num_bytes: int) -> None:
        """Count one try to fetch a blob from control, ``done`` or ``failed``; called from other threads too."""
        self._tables.blob_fetches.add((outcome,))
        self._tables.blob_fetched.add((), num_bytes)

    def evicted(self, cause: str, victim: str) -> None:
        """Count one eviction by the policy's cause and the tenant that was charged for the slot, empty for nobody."""
        self._tables.evictions.add(self._cause_and_victim(self._tables.evictions, cause, victim))
        self.recent["evictions"].add(self._clock.monotonic_s())

    def store_evicted(self, cause: str, victim: str) -> None:
        """Count one version whose files left the local store for others', likewise."""
        self._tables.store_evictions.add(self._cause_and_victim(self._tables.store_evictions, cause, victim))

    def jobs_kept(self, counts: Mapping[str, int]) -> None:
        """Take in how many jobs are kept in each state; a state that is not in it has none."""
        for labels in list(self._tables.jobs.values):
            self._tables.jobs.set(0, labels)
        for state, count in counts.items():
            self._tables.jobs.set(count, (state,))

    def job_accepted(self) -> None:
        """Count one request that was accepted as a job."""
        self._tables.jobs_accepted.add(())

    def job_tried(self, outcome: str) -> None:
        """Count one try of a job, by how it ended."""
        self._tables.job_attempts.add((outcome,))

    def job_ended(self, state: str, seconds: float) -> None:
        """Record a job's end, so many seconds after it was accepted."""
        self._tables.job_duration.observe(seconds, (state,))

    def log_lines_dropped(self, count: int) -> None:
        """Count lost lines of the request log; called from its writing thread too."""
        self._tables.log_dropped.add((), count)

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
        self._tables.identity_conflicts.add((role,))

    def probed(self, subject: str, outcome: str) -> None:
        """Count a watchdog's probe, of the base or a version, by how it ended."""
        self._tables.probes.add((subject, outcome))

    def engine_ended(self, reason: str) -> None:
        """Count an engine that ended before its time."""
        self._tables.engines_ended.add((reason,))

    def collect(self) -> Iterator[Metric]:
        """Yield every metric (called by the registry when it is scraped)."""
        self._tables.in_flight.set(self._count_in_flight())
        recent = self.recent_first_tokens.counts(self._clock.monotonic_s())
        self._tables.worst.set(max((quantile(counts, _WORST_SHARE) for counts in recent.values()), default=0.0))
        efficiency = self._batching.ratio()
        if efficiency is not None:
            self._tables.batch_efficiency.set(efficiency)
        yield from self._tables.families()
        yield from self.measures.families()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _cause_and_victim(self, table: CounterTable, cause: str, victim: str) -> tuple[str, str]:
        return _bounded(cause, table), self._shown(victim) if victim else "none"

    def _shown(self, tenant: str) -> str:
        return tenant if tenant in self._tenants else names.OTHER


def _bounded(value: str, table: CounterTable) -> str:
    """Return the value for a table's first label, or `OTHER` once that label has taken too many."""
    values = table.values
    if any(labels[0] == value for labels in values) or len({labels[0] for labels in values}) < _LABEL_VALUES_MAX:
        return value
    return names.OTHER
