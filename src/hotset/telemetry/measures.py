"""What is measured when metrics are scraped, not when it changes: bytes, waits and places, asked of whoever knows."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric

from hotset.telemetry import names
from hotset.telemetry.fleet_numbers import FleetNumbers, fleet_families
from hotset.telemetry.instruments import GaugeTable

#: Adapters that are shown by name: the largest ones of a tier, and those that wait for longest.
ADAPTERS_MAX = 10

#: Yields tier, version, rank (None where it is not known) and bytes of versions.
MeasureBytes = Callable[[], Iterable[tuple[str, str, int | None, int]]]
#: Yields the highest rank that an engine's slots take, and their bytes together.
MeasureSlots = Callable[[], Iterable[tuple[int, int]]]
#: Yields lane, version (empty for a base) and seconds so far of requests that wait.
MeasureWaits = Callable[[], Iterable[tuple[str, str, float]]]
#: Yields base, pool, requests that run or wait, and places in the engine.
MeasurePlaces = Callable[[], Iterable[tuple[str, str, int, int]]]


class Measures:
    """Gauges that are filled at each scrape."""

    def __init__(self) -> None:
        self.bytes: list[MeasureBytes] = []
        self.slots: list[MeasureSlots] = []
        self.waits: list[MeasureWaits] = []
        self.places: list[MeasurePlaces] = []
        #: In control's process.
        self.fleet: Callable[[], FleetNumbers] | None = None
        self._resident = GaugeTable(names.RESIDENT)
        self._slots = GaugeTable(names.SLOTS)
        self._largest = GaugeTable(names.LARGEST)
        self._num_queued = GaugeTable(names.QUEUED)
        self._queue_age = GaugeTable(names.QUEUE_AGE)
        self._adapter_queue_age = GaugeTable(names.ADAPTER_QUEUE_AGE)
        self._saturation = GaugeTable(names.SATURATION)

    def families(self) -> Iterator[Metric]:
        """Measure, and yield what a scrape shows."""
        self._take_bytes()
        self._take_waits()
        self._take_places()
        for table in (
            self._resident,
            self._slots,
            self._largest,
            self._num_queued,
            self._queue_age,
            self._adapter_queue_age,
            self._saturation,
        ):
            yield from table.families()
        if self.fleet is not None:
            yield from fleet_families(self.fleet())

    def queue(self) -> dict[str, tuple[int, float]]:
        """Return by lane how many requests wait, and for how long the oldest has."""
        found: dict[str, tuple[int, float]] = {}
        for lane, _, age_s in (waiting for measure in self.waits for waiting in measure()):
            count, oldest_s = found.get(lane, (0, 0.0))
            found[lane] = count + 1, max(oldest_s, age_s)
        return found

    def _take_bytes(self) -> None:
        sums = dict.fromkeys(self._resident.values, 0.0)  # what is gone shows as 0, not as its last value
        by_adapter: dict[tuple[str, str], int] = defaultdict(int)
        for tier, version, rank, num_bytes in (found for measure in self.bytes for found in measure()):
            labels = (tier, names.OTHER if rank is None else names.rank_class(rank))
            sums[labels] = sums.get(labels, 0.0) + num_bytes
            by_adapter[tier, version] += num_bytes
        self._resident.values = dict(sums)
        slots = dict.fromkeys(self._slots.values, 0.0)
        for rank, num_bytes in (found for measure in self.slots for found in measure()):
            slots[names.rank_class(rank),] = slots.get((names.rank_class(rank),), 0.0) + num_bytes
        self._slots.values = dict(slots)
        largest: dict[tuple[str, ...], float] = {}
        for tier in dict.fromkeys(tier for tier, _ in by_adapter):
            of_tier = {labels: num_bytes for labels, num_bytes in by_adapter.items() if labels[0] == tier}
            largest.update(_top(of_tier))
        self._largest.values = largest

    def _take_waits(self) -> None:
        counts = dict.fromkeys(self._num_queued.values, 0.0)
        ages = dict.fromkeys(self._queue_age.values, 0.0)
        by_adapter: dict[tuple[str, ...], float] = {}
        for lane, version, age_s in (found for measure in self.waits for found in measure()):
            counts[lane,] = counts.get((lane,), 0.0) + 1
            ages[lane,] = max(ages.get((lane,), 0.0), age_s)
            if version:
                by_adapter[version,] = max(by_adapter.get((version,), 0.0), age_s)
        self._num_queued.values, self._queue_age.values = dict(counts), dict(ages)
        self._adapter_queue_age.values = _top(by_adapter)

    def _take_places(self) -> None:
        taken: dict[tuple[str, ...], int] = defaultdict(int)
        places: dict[tuple[str, ...], int] = defaultdict(int)
        for base, pool, num_requests, num_places in (found for measure in self.places for found in measure()):
            taken[base, pool] += num_requests
            places[base, pool] += num_places
        self._saturation.values = {labels: taken[labels] / count for labels, count in places.items() if count}


def _top(values: dict[tuple[str, ...], float] | dict[tuple[str, str], int]) -> dict[tuple[str, ...], float]:
    """Return the greatest values, greatest first."""
    return dict(heapq.nsmallest(ADAPTERS_MAX, values.items(), key=lambda item: (-item[1], item[0])))
