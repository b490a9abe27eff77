"""Counters, gauges and histograms cheap enough for every request, read by prometheus-client when it scrapes.

One event loop writes; a scrape reads whole dictionaries at once. No locks: an update is one dictionary or
list operation, and a scrape may see it or not.
"""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hotset.telemetry.names import MetricName

Labels = tuple[str, ...]


class CounterTable:
    """A counter with its values by labels."""

    def __init__(self, name: MetricName) -> None:
        self._name = name
        self.values: dict[Labels, float] = {} if name.labels else {(): 0}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        """Add to one value; labels in the order of the metric's name."""
        values = self.values
        values[labels] = values.get(labels, 0) + amount

    def forget(self, label: str, *, place: int = 0) -> None:
        """Drop every value whose label of that place is this."""
        for labels in [labels for labels in self.values if labels[place] == label]:
            del self.values[labels]

    def families(self) -> Iterator[Metric]:
        """Yield what a scrape shows."""
        family = CounterMetricFamily(self._name.name, self._name.help, labels=self._name.labels)
        for labels, value in list(self.values.items()):
            family.add_metric(labels, value)
        yield family


class GaugeTable:
    """A gauge with its values by labels."""

    def __init__(self, name: MetricName) -> None:
        self._name = name
        self.values: dict[Labels, float] = {} if name.labels else {(): 0}

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set one value; labels in the order of the metric's name."""
        self.values[labels] = value

    def families(self) -> Iterator[Metric]:
        """Yield what a scrape shows."""
        family = GaugeMetricFamily(self._name.name, self._name.help, labels=self._name.labels)
        for labels, value in list(self.values.items()):
            family.add_metric(labels, value)
        yield family


class HistogramTable:
    """A histogram with its counts by labels."""

    def __init__(self, name: MetricName) -> None:
        self._name = name
        self._edges = name.edges
        self._edge_labels = [*(str(float(edge)) for edge in name.edges), "+Inf"]
        #: Labels → a count for each bucket, not cumulative, and the sum at the end.
        self._cells: dict[Labels, list[float]] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count one value; labels in the order of the metric's name."""
        cells = self._cells.get(labels)
        if cells is None:
            cells = self._cells[labels] = [0.0] * (len(self._edges) + 2)
        cells[bisect_left(self._edges, value)] += 1
        cells[-1] += value

    def forget(self, label: str, *, place: int = 0) -> None:
        """Drop every value whose label of that place is this."""
        for labels in [labels for labels in self._cells if labels[place] == label]:
            del self._cells[labels]

    def families(self) -> Iterator[Metric]:
        """Yield what a scrape shows."""
        family = HistogramMetricFamily(self._name.name, self._name.help, labels=self._name.labels)
        for labels, cells in list(self._cells.items()):
            counts = list(cells)
            total, buckets = 0.0, list[tuple[str, float]]()
            for edge, count in zip(self._edge_labels, counts[:-1], strict=True):
                total += count
                buckets.append((edge, total))
            family.add_metric(labels, buckets, counts[-1])
        yield family
