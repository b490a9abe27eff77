"""Requests that came and were not dispatched yet, and how many of them a tenant may have. Pure."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from hotset.core.ids import EngineName, RequestId, TenantId


class Arrived(msgspec.Struct, frozen=True):
    """A request came in."""

    request: RequestId
    #: None for the bare base.
    name: EngineName | None
    tenant: TenantId
    #: Of its prompt, as well as is known before the engine reads it.
    input_tokens: int
    #: That it takes in the engine.
    num_sequences: int = 1
    #: What is left of its first-token budget; None sets none.
    budget_s: float | None = None


class _Wait(msgspec.Struct, eq=False):
    arrived: Arrived
    #: The lowest counter of the fair queue when it came.
    lowest: float
    #: Since when its version is in its slot, monotonic seconds; None while it is in none.
    hot_at_s: float | None = None


class Arrivals:
    """The waiting list of one worker, for a slot or for a place alike."""

    def __init__(self, waiting_max: int) -> None:
        """Start empty; of one tenant never more wait than are left for others, so at most half of `waiting_max`."""
        self._waiting_max = waiting_max
        self._waits: dict[RequestId, _Wait] = {}
        #: How many these are by tenant; none is kept with 0.
        self._num_by_tenant: dict[TenantId, int] = {}

    def __getitem__(self, request: RequestId) -> Arrived:
        return self._waits[request].arrived

    def __contains__(self, request: RequestId) -> bool:
        return request in self._waits

    def __len__(self) -> int:
        return len(self._waits)

    def __iter__(self) -> Iterator[Arrived]:
        return iter([wait.arrived for wait in self._waits.values()])

    def is_full(self, tenant: TenantId) -> bool:
        """Whether a tenant may let no more requests wait, so that one that floods leaves as much to the others."""
        return self._num_by_tenant.get(tenant, 0) >= self._waiting_max - len(self._waits)

    def add(self, arrived: Arrived, lowest: float) -> None:
        """Let a request wait; `lowest` is the lowest counter of the fair queue now."""
        self._waits[arrived.request] = _Wait(arrived, lowest)
        self._num_by_tenant[arrived.tenant] = self._num_by_tenant.get(arrived.tenant, 0) + 1

    def has_slot(self, request: RequestId, now_s: float) -> float:
        """Let a request wait for a place alone from now on; return the lowest counter when it came."""
        wait = self._waits[request]
        wait.hot_at_s = now_s
        return wait.lowest

    def let_go(self, request: RequestId) -> float | None:
        """Count a request among those that wait no more; unknown ones are ignored.

        Returns:
            Since when its version is in its slot, monotonic seconds; None where it is in none.
        """
        wait = self._waits.pop(request, None)
        if wait is None:
            return None
        tenant = wait.arrived.tenant
        self._num_by_tenant[tenant] -= 1
        if not self._num_by_tenant[tenant]:
            del self._num_by_tenant[tenant]
        return wait.hot_at_s

    def check(self) -> None:
        """Assert that the counts are right."""
        counts = Counter(wait.arrived.tenant for wait in self._waits.values())
        assert self._num_by_tenant == counts, f"{self._num_by_tenant} arrived, in truth {counts}"
