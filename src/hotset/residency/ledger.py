"""Who evicted whom: evictions that each tenant caused and suffered, by cause. Pure.

Pairs of tenants are not kept, as they would be as many as the square of the tenants: who made room for whom just now is
told by the newest evictions themselves. Nothing here grows beyond a bound, whoever comes and goes.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from hotset.core.ids import TenantId
from hotset.residency.events import Cause

#: Of so many tenants, those that had a part in an eviction last, the counts are kept.
TENANTS_MAX = 250


@dataclass(frozen=True, slots=True)
class Part:
    """One tenant's part in evictions; no cause is kept with 0."""

    caused: Counter[Cause] = field(default_factory=Counter[Cause])
    suffered: Counter[Cause] = field(default_factory=Counter[Cause])


class Ledger:
    """Of slots, or of the local store, since the engine started."""

    def __init__(self, *, tenants_max: int = TENANTS_MAX) -> None:
        """Start empty, for so many tenants at most, at least 2."""
        self._tenants_max = tenants_max
        #: The tenant that had a part in an eviction longest ago first; none is kept without any.
        self._parts: dict[TenantId, Part] = {}

    def tenants(self) -> Collection[TenantId]:
        """Return the tenants that had a part in an eviction."""
        return self._parts.keys()

    def of(self, tenant: TenantId) -> Part:
        """Return a tenant's part, to look at and not to touch."""
        return self._parts.get(tenant) or Part()

    def evicted(self, by: TenantId, victim: TenantId, cause: Cause) -> None:
        """Count an eviction; ``own`` counts on both sides."""
        for tenant in (by, victim):
            self._parts[tenant] = self._parts.pop(tenant, None) or Part()
        self._parts[by].caused[cause] += 1
        self._parts[victim].suffered[cause] += 1
        while len(self._parts) > self._tenants_max:
            del self._parts[next(iter(self._parts))]

    def undone(self, by: TenantId, victim: TenantId, cause: Cause) -> None:
        """Count an eviction no more, as it did not come to it; of tenants that were forgotten there is none."""
        _take_one(self.of(by).caused, cause)
        _take_one(self.of(victim).suffered, cause)
        for tenant in (by, victim):
            if self._parts.get(tenant) == Part():
                del self._parts[tenant]

    def keep(self, tenants: Collection[TenantId]) -> None:
        """Forget every tenant that is not among these."""
        self._parts = {tenant: part for tenant, part in self._parts.items() if tenant in tenants}


def _take_one(counts: Counter[Cause], cause: Cause) -> None:
    counts[cause] -= 1
    if counts[cause] <= 0:
        del counts[cause]
