"""The tables behind every metric that is counted or observed, each made once; a scrape shows them in this order."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from hotset.telemetry import names
from hotset.telemetry.instruments import CounterTable, GaugeTable, HistogramTable


class MetricTables:
    """One table for each metric; what is measured only at a scrape is in `measures`."""

    def __init__(self) -> None:
        self.requests = CounterTable(names.REQUESTS)
        self.errors = CounterTable(names.ERRORS)
        self.refused = CounterTable(names.REFUSED)
        self.in_flight = GaugeTable(names.IN_FLIGHT)
        self.first_token = HistogramTable(names.FIRST_TOKEN)
        self.per_token = HistogramTable(names.PER_TOKEN)
        self.prediction_error = HistogramTable(names.PREDICTION_ERROR)
        self.queue = HistogramTable(names.QUEUE)
        self.load = HistogramTable(names.LOAD)
        self.lookups = CounterTable(names.LOOKUPS)
        self.prefetches = CounterTable(names.PREFETCHES)
        self.blob_fetches = CounterTable(names.BLOB_FETCHES)
        self.blob_fetched = CounterTable(names.BLOB_FETCHED)
        self.evictions = CounterTable(names.EVICTIONS)
        self.store_evictions = CounterTable(names.STORE_EVICTIONS)
        self.batch_efficiency = GaugeTable(names.BATCH_EFFICIENCY)
        self.batch_efficiency.values.clear()  # no step, no ratio
        self.step_adapters = HistogramTable(names.STEP_ADAPTERS)
        self.step_tokens = HistogramTable(names.STEP_TOKENS)
        self.worst = GaugeTable(names.WORST_TENANT)
        self.tokens = CounterTable(names.TOKENS)
        self.log_dropped = CounterTable(names.LOG_DROPPED)
        self.jobs = GaugeTable(names.JOBS)
        self.jobs_accepted = CounterTable(names.JOBS_ACCEPTED)
        self.job_attempts = CounterTable(names.JOB_ATTEMPTS)
        self.job_duration = HistogramTable(names.JOB_DURATION)
        self.identity_conflicts = CounterTable(names.IDENTITY_CONFLICTS)
        self.probes = CounterTable(names.PROBES)
        self.engines_ended = CounterTable(names.ENGINES_ENDED)
        self.build = GaugeTable(names.BUILD)

    def families(self) -> Iterator[Metric]:
        """Yield what a scrape shows of all of them."""
        tables: dict[str, CounterTable | GaugeTable | HistogramTable] = vars(self)
        for table in tables.values():
            yield from table.families()
