"""Policies that keep adapters in slots, small and plain: what a replay compares.

A policy is asked for one adapter at a time. Whatever is asked for must be in a slot when it is served, so
each miss is a load, and with every slot taken each load is an eviction: no policy may serve a request past
its slots. `POLICIES` names them all; a policy of another kind joins a replay by an entry there.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from hotset.bench.replay_hotset import HotsetResidency
from hotset.bench.workloads import Workload


class ReplayPolicy(Protocol):
    """Decides for the slots of one worker."""

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request, loading and evicting as needed.

        Args:
            at_s: Arrival, never before the one of the request before.
            tenant: Whose request it is.
            adapter: What it asks for.

        Returns:
            True where the adapter was resident at arrival, False where it had to be loaded.
        """
        ...


#: Makes a policy for one workload and number of slots; only policies that know the future look at its requests.
PolicyMaker = Callable[[Workload, int], ReplayPolicy]


class Lru:
    """Evicts what was asked for longest ago; the policy of vLLM's adapter slots."""

    def __init__(self, num_slots: int) -> None:
        """Start with `num_slots` empty slots."""
        self._num_slots = num_slots
        self._resident: OrderedDict[str, None] = OrderedDict()

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request."""
        is_hit = adapter in self._resident
        if not is_hit and len(self._resident) == self._num_slots:
            self._resident.popitem(last=False)
        self._resident[adapter] = None
        self._resident.move_to_end(adapter)
        return is_hit


class StaticTopK:
    """Keeps the most popular adapters of the whole trace for ever, from their first load on.

    One slot fewer than there are is pinned: through the last one goes all the rest, since it must be served too.
    """

    def __init__(self, adapters: Sequence[str], num_slots: int) -> None:
        """Start with empty slots.

        Args:
            adapters: Every request's adapter, from which popularity is counted.
            num_slots: Slots of the worker, at least 1.
        """
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


class DecayedLfu:
    """Evicts what was asked for least, where a request counts half as much after each half-life.

    Counts are kept as base-2 logarithms as of time 0, so that nothing needs touching while time passes.
    """

    def __init__(self, num_slots: int, half_life_s: float = 300.0) -> None:
        """Start with `num_slots` empty slots and no counts."""
        self._num_slots = num_slots
        self._half_life_s = half_life_s
        self._resident: set[str] = set()
        self._log_counts: dict[str, float] = {}

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request; of equal counts, the first by name goes."""
        one = at_s / self._half_life_s
        self._log_counts[adapter] = _log2_of_sum(one, self._log_counts.get(adapter, -math.inf))
        if adapter in self._resident:
            return True
        if len(self._resident) == self._num_slots:
            self._resident.remove(min(self._resident, key=lambda name: (self._log_counts[name], name)))
        self._resident.add(adapter)
        return False


class Belady:
    """Evicts what will be asked for last: no policy that loads on a miss has fewer of them.

    Source: Belady, IBM Systems Journal 5(2), 1966.
    """

    def __init__(self, adapters: Sequence[str], num_slots: int) -> None:
        """Start with empty slots.

        Args:
            adapters: Every request's adapter, in the order in which they will be asked for.
            num_slots: Slots of the worker, at least 1.
        """
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

#: Every policy of a replay by its name, in the order of the report.
POLICIES: Mapping[str, PolicyMaker] = {
    LRU: lambda workload, num_slots: Lru(num_slots),
    "top-k": lambda workload, num_slots: StaticTopK(_adapters(workload), num_slots),
    "decayed-lfu": lambda workload, num_slots: DecayedLfu(num_slots),
    "hotset": lambda workload, num_slots: HotsetResidency(frozenset(_adapters(workload)), num_slots),
    BELADY: lambda workload, num_slots: Belady(_adapters(workload), num_slots),
}


def _adapters(workload: Workload) -> list[str]:
    return [request.adapter for request in workload.requests]


def _log2_of_sum(left: float, right: float) -> float:
    """Return log2(2**left + 2**right) without leaving the range of floats."""
    low, high = sorted((left, right))
    return high + math.log2(1.0 + 2.0 ** (low - high))
