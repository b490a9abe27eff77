"""What the processes of a fleet counted, by their own metrics pages, summed over all of them."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_EVERY_S = 0.5
LOOKUPS, EVICTIONS = "hotset_adapter_lookups_total", "hotset_adapter_evictions_total"
LOADS, QUEUE, AGES = "hotset_adapter_load_duration_seconds", "hotset_queue_duration_seconds", "hotset_queue_age_seconds"


class FleetMetrics:
    """Scrapes all processes again and again, for the ages that only show while something waits."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        """Begin.

        Args:
            pages: Addresses of metrics pages by process.
        """
        self._pages = pages
        self._samples: dict[str, list[Sample]] = {}
        #: The greatest age that was seen, by lane.
        self.oldest_s: dict[str, float] = defaultdict(float)

    async def watch(self) -> None:
        """Scrape until cancelled."""
        async with httpx.AsyncClient(timeout=30) as http:
            while True:
                await self._scrape(http)
                await asyncio.sleep(_EVERY_S)

    async def _scrape(self, http: httpx.AsyncClient) -> None:
        for process, page in self._pages.items():
            text = (await http.get(f"{page}/metrics")).text
            self._samples[process] = [s for family in text_string_to_metric_families(text) for s in family.samples]
        for sample in self._of(AGES):
            lane = sample.labels["lane"]
            self.oldest_s[lane] = max(self.oldest_s[lane], sample.value)

    def sums(self, name: str, label: str) -> dict[str, float]:
        """Return a counter by one label, over all processes."""
        found: dict[str, float] = defaultdict(float)
        for sample in self._of(name):
            found[sample.labels[label]] += sample.value
        return dict(sorted(found.items()))

    def lookups_by_process(self) -> dict[str, float]:
        """Return how many requests each process looked up; those that look none up are left out."""
        return {
            process: total
            for process, samples in self._samples.items()
            if (total := sum(sample.value for sample in samples if sample.name == LOOKUPS))
        }

    def histogram(self, name: str, label: str) -> Iterator[str]:
        """Yield a line for each value of the label: how many, the mean, and what 95% were at most."""
        counts, sums = self.sums(f"{name}_count", label), self.sums(f"{name}_sum", label)
        for value, count in counts.items():
            if count:
                edge = self._edge(name, {label: value}, 0.95 * count)
                mean_ms = sums[value] / count * 1000
                yield f"{value}: {count:.0f}, mean {mean_ms:.1f} ms, 95% within {edge * 1000:.0f} ms"

    def _edge(self, name: str, labels: Mapping[str, str], count: float) -> float:
        """Return the lowest edge of a bucket that so many are within."""
        within: dict[float, float] = defaultdict(float)
        for sample in self._of(f"{name}_bucket"):
            if labels.items() <= sample.labels.items():
                within[float(sample.labels["le"])] += sample.value
        return next((edge for edge in sorted(within) if within[edge] >= count), float("inf"))

    def _of(self, name: str) -> Iterator[Sample]:
        return (sample for samples in self._samples.values() for sample in samples if sample.name == name)
