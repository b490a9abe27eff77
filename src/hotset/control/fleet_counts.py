"""What happened to the fleet since control's start: moves of homes, versions without one, lost workers."""

from collections import Counter
from collections.abc import Iterable

from hotset.core.ids import EngineName
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.placements import Move


class FleetCounts:
    """Hears of each reconcile."""

    def __init__(self) -> None:
        self.moves: Counter[str] = Counter()
        self.num_lost = 0
        #: How often a version had no home, and for how many seconds, over the gaps that ended.
        self.num_gaps = 0
        self._ended_s = 0.0
        #: Since when each version without a home has had none.
        self._homeless: dict[EngineName, float] = {}

    @property
    def num_homeless(self) -> int:
        """Versions without a home now."""
        return len(self._homeless)

    def gap_seconds(self, now_s: float) -> float:
        """Return for how many seconds versions had no home, those that still have none counted up to now."""
        return self._ended_s + sum(now_s - began_s for began_s in self._homeless.values())

    def moved(self, moves: Iterable[Move]) -> None:
        """Homes moved."""
        self.moves.update(move.cause for move in moves)

    def published(self, snapshot: RoutingSnapshot, now_s: float) -> None:
        """Homes are as this snapshot has them."""
        homeless = [name for name in snapshot.versions if not snapshot.homes.get(name)]
        for name in self._homeless.keys() - set(homeless):
            self._ended_s += now_s - self._homeless.pop(name)
        for name in homeless:
            if name not in self._homeless:
                self._homeless[name] = now_s
                self.num_gaps += 1
