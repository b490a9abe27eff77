"""Policies that keep adapters in slots, small and plain: what a replay compares.

A policy is asked for one adapter at a time. Whatever is asked for must be in a slot when it is served, so
each miss is a load, and with every slot taken each load is an eviction: no policy may serve a request past
its slots. What waits may be shown to it before; it makes of that what it can. `POLICIES` names them all; a policy of
another kind joins a replay by an entry there.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from hotset.bench.replay_hotset import HotsetResidency
from hotset.bench.workloads import Workload
from hotset.core.clock import Clock
from hotset.core.ids import TenantId


class ReplayPolicy(Protocol):
    """Decides for the slots of one worker."""

    #: What each decision took, in seconds; a policy that leaves it empty takes one decision a request.
    decisions_s: list[float]

    def see(self, at_s: float, adapter: str) -> None:
        """Take notice of a request that waits, in the order in which they will be served; not called without sight.

        Args:
            at_s: When it came.
            adapter: What it asks for.
        """
        ...

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request, loading and evicting as needed.

        Args:
            at_s: Now, never before the one of the request before.
            tenant: Whose request it is.
            adapter: What it asks for.

        Returns:
            True where the adapter was resident, False where it had to be loaded.
        """
        ...


#: Makes a policy for one workload and number of slots; only policies that know the future look at its requests.
PolicyMaker = Callable[[Workload, int, Clock], ReplayPolicy]


class Unsighted:
    """A policy that does nothing with what waits, and times nothing itself."""

    def __init__(self) -> None:
        """Start."""
        self.decisions_s: list[float] = []

    def see(self, at_s: float, adapter: str) -> None:
        """Take no notice."""


class Ranking(ABC):
    """Evicts what ranks lowest of what nobody waits for; where all are waited for, what is needed last."""

    def __init__(self, num_slots: int) -> None:
        """Start with `num_slots` empty slots."""
        self.decisions_s: list[float] = []
        self._num_slots = num_slots
        self._resident: dict[str, None] = {}
        #: Places in the queue of the requests that wait, by adapter; none is kept without one.
        self._waiting: dict[str, deque[int]] = {}
        self._num_seen = 0

    def see(self, at_s: float, adapter: str) -> None:
        """Let a request wait in sight."""
        self._num_seen += 1
        self._waiting.setdefault(adapter, deque()).append(self._num_seen)

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request; of equal rank, the first by name goes."""
        if (places := self._waiting.get(adapter)) is not None:
            places.popleft()
            if not places:
                del self._waiting[adapter]
        self.count(at_s, adapter)
        if adapter in self._resident:
            return True
        if len(self._resident) == self._num_slots:
            del self._resident[min(self._resident, key=self._order)]
        self._resident[adapter] = None
        return False

    def _order(self, adapter: str) -> tuple[int, float, str]:
        places = self._waiting.get(adapter)
        return (0, self.rank(adapter), adapter) if places is None else (1, -places[0], adapter)

    @abstractmethod
    def count(self, at_s: float, adapter: str) -> None:
        """Take in that an adapter is served."""

    @abstractmethod
    def rank(self, adapter: str) -> float:
        """Return a resident adapter's rank."""


class Lru(Ranking):
    """Evicts what was asked for longest ago; the policy of vLLM's adapter slots."""

    def __init__(self, num_slots: int) -> None:
        """Start with `num_slots` empty slots."""
        super().__init__(num_slots)
        self._num_asked = 0
        #: Each adapter's last request.
        self._last: dict[str, int] = {}

    def count(self, at_s: float, adapter: str) -> None:
        """Take in that an adapter is served."""
        self._num_asked += 1
        self._last[adapter] = self._num_asked

    def rank(self, adapter: str) -> float:
        """Return the number of its last request."""
        return self._last[adapter]


class StaticTopK(Unsighted):
    """Keeps the most popular adapters of the whole trace for ever, from their first load on.

    One slot fewer than there are is pinned: through the last one goes all the rest, since it must be served too.
    """

    def __init__(self, adapters: Sequence[str], num_slots: int) -> None:
        """Start with empty slots.

        Args:
            adapters: Every request's adapter, from which popularity is counted.
            num_slots: Slots of the worker, at least 1.
        """
        super().__init__()
        self._pinned = frozenset(name for name, _ in Counter(adapters).most_common(num_slots - 1))
        self._resident: set[str] = set()
        self._passing: str | None = None

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request."""
        if adapter in self._pinned:
            is_hit = adapter in self._resident
            self._resident.add(adapter)
        else:
            is_hit = adapter == self._passing
            self._passing = adapter
        return is_hit


class DecayedLfu(Ranking):
    """Evicts what was asked for least, where a request counts half as much after each half-life.

    Counts are kept as base-2 logarithms as of time 0, so that nothing needs touching while time passes.
    """

    def __init__(self, num_slots: int, half_life_s: float = 300.0) -> None:
        """Start with `num_slots` empty slots and no counts."""
        super().__init__(num_slots)
        self._half_life_s = half_life_s
        self._log_counts: dict[str, float] = {}

    def count(self, at_s: float, adapter: str) -> None:
        """Take in that an adapter is served."""
        self._log_counts[adapter] = _log2_of_sum(at_s / self._half_life_s, self._log_counts.get(adapter, -math.inf))

    def rank(self, adapter: str) -> float:
        """Return the logarithm of its count."""
        return self._log_counts[adapter]


class Belady(Unsighted):
    """Evicts what will be asked for last: no policy that loads on a miss has fewer of them.

    Source: Belady, IBM Systems Journal 5(2), 1966.
    """

    def __init__(self, adapters: Sequence[str], num_slots: int) -> None:
        """Start with empty slots.

        Args:
            adapters: Every request's adapter, in the order in which they will be asked for.
            num_slots: Slots of the worker, at least 1.
        """
        super().__init__()
        self._adapters = adapters
        self._next_uses = next_uses(adapters)
        self._num_slots = num_slots
        self._position = 0
        self._resident: dict[str, int] = {}

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve the next request of the trace.

        Raises:
            ValueError: it is another one than was foretold.
        """
        if self._position == len(self._adapters) or self._adapters[self._position] != adapter:
            raise ValueError(f"request {self._position} asks for {adapter}, which is not what was foretold")
        is_hit = adapter in self._resident
        if not is_hit and len(self._resident) == self._num_slots:
            del self._resident[max(self._resident, key=self._resident.__getitem__)]
        self._resident[adapter] = self._next_uses[self._position]
        self._position += 1
        return is_hit


def next_uses(adapters: Sequence[str]) -> list[int]:
    """Return for each request the position of the next one for the same adapter; `len(adapters)` for none."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(adapter, len(numbers)) for adapter in adapters], dtype=np.int64)
    order = np.argsort(codes, kind="stable")  # [num_requests], by adapter, then by position
    following = np.full(len(codes), len(codes))
    is_same = codes[order[:-1]] == codes[order[1:]]
    following[order[:-1][is_same]] = order[1:][is_same]
    return following.tolist()


LRU, BELADY = "lru", "belady"
_ONE_ACCOUNT = TenantId("all")

#: Every policy of a replay by its name, in the order of the report.
POLICIES: Mapping[str, PolicyMaker] = {
    LRU: lambda workload, num_slots, clock: Lru(num_slots),
    "top-k": lambda workload, num_slots, clock: StaticTopK(_adapters(workload), num_slots),
    "decayed-lfu": lambda workload, num_slots, clock: DecayedLfu(num_slots),
    "hotset": lambda workload, num_slots, clock: HotsetResidency(frozenset(_adapters(workload)), num_slots, clock),
    "hotset-one-account": lambda workload, num_slots, clock: HotsetResidency(
        frozenset(_adapters(workload)), num_slots, clock, only_account=_ONE_ACCOUNT
    ),
    BELADY: lambda workload, num_slots, clock: Belady(_adapters(workload), num_slots),
}


def _adapters(workload: Workload) -> list[str]:
    return [request.adapter for request in workload.requests]


def _log2_of_sum(left: float, right: float) -> float:
    """Return log2(2**left + 2**right) without leaving the range of floats."""
    low, high = sorted((left, right))
    return high + math.log2(1.0 + 2.0 ** (low - high))
