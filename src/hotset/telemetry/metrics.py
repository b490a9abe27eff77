"""One object with every metric; methods are named after what happened, so callers know no metric's name.

Labels are bounded: tenants are those of the snapshot up to a limit, lanes, outcomes, tiers, causes and codes
come from closed sets. A tenant that leaves the snapshot takes its series with it.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hotset import __version__
from hotset.core.clock import Clock
from hotset.core.ids import TenantId
from hotset.telemetry import names
from hotset.telemetry.instruments import CounterTable, GaugeTable, HistogramTable

_WORST_WINDOW_S = 60.0
#: Distinct values a label from a closed set may take before the rest is `OTHER`; a guard, not a budget.
_LABEL_VALUES_MAX = 64


#: Yields tier, rank (None where it is not known) and bytes of versions.
Measure = Callable[[], Iterable[tuple[str, int | None, int]]]


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
        self._queue = HistogramTable(names.QUEUE)
        self._load = HistogramTable(names.LOAD)
        self._lookups = CounterTable(names.LOOKUPS)
        self._evictions = CounterTable(names.EVICTIONS)
        self._resident = GaugeTable(names.RESIDENT)
        self._measures: list[Measure] = []
        self._worst = GaugeTable(names.WORST_TENANT)
        self._tokens = CounterTable(names.TOKENS)
        self._log_dropped = CounterTable(names.LOG_DROPPED)
        self._build = GaugeTable(names.BUILD)
        self._build.set(1, (__version__,))
        self._worst_began_s = clock.monotonic_s()
        self._worst_now = 0.0
        self._worst_before = 0.0
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def apply_tenants(self, tenants: Iterable[TenantId]) -> None:
        """Make these the tenants that have series of their own; forget those that left."""
        known = frozenset(sorted(tenants)[: self._tenants_max])
        for gone in self._tenants - known:
            self._tokens.forget(gone)
        self._tenants = known

    def request_ended(self, outcome: str, lane: str, code: str | None) -> None:
        """Count one request; `lane` is empty where none was decided, `code` is the error's or None."""
        self._requests.add((outcome, lane or "none"))
        if code is not None:
            self._errors.add((_bounded(code, self._errors.values, 0),))

    def request_refused(self, reason: str) -> None:
        """Count one generation request that was refused, by the code of its error."""
        self._refused.add((_bounded(reason, self._refused.values, 0),))

    def page_refused(self, code: str) -> None:
        """Count a request for anything but a generation that ended with an error."""
        self._errors.add((_bounded(code, self._errors.values, 0),))

    def tokens_used(self, tenant: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count tokens of one request, whether or not it was completed."""
        shown = tenant if tenant in self._tenants else names.OTHER
        self._tokens.add((shown, "prompt"), prompt_tokens)
        self._tokens.add((shown, "completion"), completion_tokens)

    def first_token(self, seconds: float) -> None:
        """Record one request's time to its first token, in seconds."""
        self._first_token.observe(seconds)
        self._turn_worst()
        self._worst_now = max(self._worst_now, seconds)

    def queued(self, lane: str, seconds: float) -> None:
        """Record one request's wait for dispatch, apart from loading, in seconds."""
        self._queue.observe(seconds, (lane,))

    def count_in_flight_by(self, count: Callable[[], int]) -> None:
        """Ask this, at every scrape, how many requests are in flight."""
        self._count_in_flight = count

    def measure_resident_by(self, measure: Measure) -> None:
        """Ask this, too, at every scrape, which versions are resident and how large they are."""
        self._measures.append(measure)

    def lookup(self, tier: str) -> None:
        """Count in which tier (hot, warm, cold) a request's version was found."""
        self._lookups.add((_bounded(tier, self._lookups.values, 0),))

    def load_done(self, source_tier: str, rank: int, seconds: float) -> None:
        """Record one finished load: from which tier, of which rank, in how many seconds."""
        self._load.observe(seconds, (source_tier, names.rank_class(rank)))

    def evicted(self, cause: str) -> None:
        """Count one eviction by the policy's cause."""
        self._evictions.add((_bounded(cause, self._evictions.values, 0),))

    def log_lines_dropped(self, count: int) -> None:
        """Count lost lines of the request log; called from its writing thread too."""
        self._log_dropped.add((), count)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric (called by the registry when it is scraped)."""
        self._in_flight.set(self._count_in_flight())
        self._sum_resident()
        self._turn_worst()
        self._worst.set(max(self._worst_now, self._worst_before))
        for table in (
            self._requests,
            self._errors,
            self._refused,
            self._in_flight,
            self._first_token,
            self._queue,
            self._load,
            self._lookups,
            self._evictions,
            self._resident,
            self._worst,
            self._tokens,
            self._log_dropped,
            self._build,
        ):
            yield from table.families()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _sum_resident(self) -> None:
        sums = dict.fromkeys(self._resident.values, 0.0)  # what is gone shows as 0, not as its last value
        for measure in self._measures:
            for tier, rank, num_bytes in measure():
                labels = (tier, names.OTHER if rank is None else names.rank_class(rank))
                sums[labels] = sums.get(labels, 0.0) + num_bytes
        for labels, value in sums.items():
            self._resident.set(value, labels)

    def _turn_worst(self) -> None:
        now = self._clock.monotonic_s()
        age = now - self._worst_began_s
        if age < _WORST_WINDOW_S:
            return
        self._worst_before = self._worst_now if age < 2 * _WORST_WINDOW_S else 0.0
        self._worst_now = 0.0
        self._worst_began_s = now


def _bounded(value: str, seen: dict[tuple[str, ...], float], place: int) -> str:
    if len(seen) < _LABEL_VALUES_MAX or any(labels[place] == value for labels in seen):
        return value
    return names.OTHER
