"""How much load each worker of a pool bears, and which may bear no more: no worker is to have far more than its part.

A worker's part is the pool's whole load by its share of the slots. A version that is at home there may stay up to
`keep_over` times that, another one may come up to `take_over` times: the gap between the two keeps a load that swings
from moving versions to and fro.

Source: Mirrokni, Thorup & Zadimoghaddam, "Consistent hashing with bounded loads" (2016); the gap is ours.
"""

from collections.abc import Iterable, Sequence

from hotset.core.ids import WorkerId
from hotset.routing.placements import HomesSettings, HomeWorker, Placement


class Burdens:
    """The loads of one pool's workers while homes are chosen, version by version."""

    def __init__(self, workers: Sequence[HomeWorker], placements: Iterable[Placement], settings: HomesSettings) -> None:
        """Start from where the versions are at home, with their loads of now."""
        placed = list(placements)
        total, num_slots = sum(each.load for each in placed), sum(worker.num_slots for worker in workers)
        self._parts = {worker.worker: total * worker.num_slots / max(1, num_slots) for worker in workers}
        self._loads = dict.fromkeys(self._parts, 0.0)
        self._settings = settings
        for each in placed:
            self.put(each)

    def put(self, placement: Placement) -> None:
        """Add a version's load to its homes."""
        self._add(placement, 1.0)

    def take(self, placement: Placement) -> None:
        """Take a version's load from its homes."""
        self._add(placement, -1.0)

    def is_full(self, worker: WorkerId, share: float, *, is_home: bool) -> bool:
        """Whether so much of a version's load would be too much there, beside that of all others.

        Args:
            worker: One of the pool.
            share: What one home of the version bears; where that is hardly anything, no worker is full.
            is_home: The version is at home there.
        """
        if share < self._settings.share_min:
            return False
        over = self._settings.keep_over if is_home else self._settings.take_over
        return self._loads[worker] + share > over * self._parts[worker]

    def _add(self, placement: Placement, sign: float) -> None:
        for home in placement.homes:
            if home in self._loads:
                self._loads[home] += sign * placement.load / len(placement.homes)
