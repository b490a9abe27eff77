"""Requests that came and were not dispatched yet, and how many of them a tenant may have. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hotset.core.ids import EngineName, RequestId, TenantId


@dataclass(frozen=True, slots=True)
class Arrived:
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


class Arrivals:
    """The waiting list of one worker, for a slot or for a place alike."""

    def __init__(self, waiting_max: int) -> None:
        """Start empty; of one tenant never more wait than are left for others, so at most half of `waiting_max`."""
        self._waiting_max = waiting_max
        self._arrived: dict[RequestId, Arrived] = {}
        #: How many these are by tenant; none is kept with 0.
        self._num_by_tenant: Counter[TenantId] = Counter()

    def __getitem__(self, request: RequestId) -> Arrived:
        return self._arrived[request]

    def __contains__(self, request: RequestId) -> bool:
        return request in self._arrived

    def __iter__(self) -> Iterator[Arrived]:
        return iter(list(self._arrived.values()))

    def is_full(self, tenant: TenantId) -> bool:
        """Whether a tenant may let no more requests wait, so that one that floods leaves as much to the others."""
        return self._num_by_tenant[tenant] >= self._waiting_max - len(self._arrived)

    def add(self, arrived: Arrived) -> None:
        """Let a request wait."""
        self._arrived[arrived.request] = arrived
        self._num_by_tenant[arrived.tenant] += 1

    def let_go(self, request: RequestId) -> None:
        """Count a request among those that wait no more; unknown ones are ignored."""
        arrived = self._arrived.pop(request, None)
        if arrived is not None:
            self._num_by_tenant[arrived.tenant] -= 1
            if not self._num_by_tenant[arrived.tenant]:
                del self._num_by_tenant[arrived.tenant]

    def check(self) -> None:
        """Assert that the counts are right."""
        counts = Counter(each.tenant for each in self._arrived.values())
        assert self._num_by_tenant == counts, f"{self._num_by_tenant} arrived, in truth {counts}"
