"""What control counts of its fleet, and the metrics that this becomes at a scrape; none where there is no fleet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from hotset.telemetry import names
from hotset.telemetry.instruments import CounterTable, GaugeTable


@dataclass(frozen=True, slots=True)
class FleetNumbers:
    """The fleet at one moment; counts are since control's start."""

    #: By what operators and heartbeats say: serving, cordoned, draining, not_ready, lost.
    workers: Mapping[str, int] = field(default_factory=dict[str, int])
    num_lost: int = 0
    #: Moves of homes by cause.
    moves: Mapping[str, int] = field(default_factory=dict[str, int])
    #: Versions without a home now, how often one was, and for how long together.
    num_homeless: int = 0
    num_gaps: int = 0
    gap_seconds: float = 0.0
    #: Of the newest snapshot.
    epoch: int = 0
    #: By role: for how long the holder that is furthest behind has not acknowledged the newest snapshot.
    lags_s: Mapping[str, float] = field(default_factory=dict[str, float])
    #: By whom: operator or watchdog.
    quarantines: Mapping[str, int] = field(default_factory=dict[str, int])


def fleet_families(numbers: FleetNumbers) -> Iterator[Metric]:
    """Yield what a scrape shows of a fleet."""
    yield from _gauge(names.WORKERS, {(state,): count for state, count in numbers.workers.items()})
    yield from _counter(names.WORKERS_LOST, {(): numbers.num_lost})
    yield from _counter(names.HOME_MOVES, {(cause,): count for cause, count in numbers.moves.items()})
    yield from _gauge(names.HOMELESS, {(): numbers.num_homeless})
    yield from _counter(names.HOME_GAPS, {(): numbers.num_gaps})
    yield from _counter(names.HOME_GAP_SECONDS, {(): numbers.gap_seconds})
    yield from _gauge(names.SNAPSHOT_EPOCH, {(): numbers.epoch})
    yield from _gauge(names.SNAPSHOT_LAG, {(role,): lag_s for role, lag_s in numbers.lags_s.items()})
    yield from _counter(names.QUARANTINES, {(by,): count for by, count in numbers.quarantines.items()})


def _gauge(name: names.MetricName, values: Mapping[tuple[str, ...], float]) -> Iterator[Metric]:
    table = GaugeTable(name)
    table.values = dict(values)
    return table.families()


def _counter(name: names.MetricName, values: Mapping[tuple[str, ...], float]) -> Iterator[Metric]:
    table = CounterTable(name)
    table.values = dict(values)
    return table.families()
