"""How many requests may be in flight: one bound for the whole server, one for each tenant.

Pure counters. Invariant: the total is the sum over tenants, no tenant with a zero count is kept, and no count
passes its bound (`check` re-derives all three).
"""

from hotset.core.errors import TooManyRequestsError
from hotset.core.ids import TenantId


class InFlight:
    """Counts requests from the moment they are let in until they ended."""

    def __init__(self, *, total_max: int, per_tenant_max: int, retry_after_ms: int = 1000) -> None:
        assert total_max >= 1, total_max
        assert per_tenant_max >= 1, per_tenant_max
        self._total_max = total_max
        self._per_tenant_max = per_tenant_max
        self._retry_after_ms = retry_after_ms
        #: The sum of `_by_tenant`.
        self._total = 0
        #: Only tenants with at least one request in flight.
        self._by_tenant: dict[TenantId, int] = {}

    @property
    def total(self) -> int:
        """Requests in flight over all tenants."""
        return self._total

    def of(self, tenant: TenantId) -> int:
        """Requests in flight of one tenant."""
        return self._by_tenant.get(tenant, 0)

    def enter(self, tenant: TenantId) -> None:
        """Count one more request of the tenant; each must be followed by one `leave`.

        Raises:
            TooManyRequestsError: the server or the tenant is at its bound; nothing was counted.
        """
        count = self._by_tenant.get(tenant, 0)
        if count >= self._per_tenant_max:
            raise TooManyRequestsError("You have too many requests in flight.", retry_after_ms=self._retry_after_ms)
        if self._total >= self._total_max:
            raise TooManyRequestsError(
                "The server has too many requests in flight.", retry_after_ms=self._retry_after_ms
            )
        self._by_tenant[tenant] = count + 1
        self._total += 1

    def leave(self, tenant: TenantId) -> None:
        """Count one request of the tenant less."""
        count = self._by_tenant.get(tenant, 0)
        assert count >= 1, f"leave without enter: {tenant}"
        if count == 1:
            del self._by_tenant[tenant]
        else:
            self._by_tenant[tenant] = count - 1
        self._total -= 1

    def check(self) -> None:
        """Assert that every total agrees with what it is the total of."""
        assert self._total == sum(self._by_tenant.values()), "total is not the sum over tenants"
        assert self._total <= self._total_max, "over the server's bound"
        for tenant, count in self._by_tenant.items():
            assert 1 <= count <= self._per_tenant_max, f"{tenant}: {count}"
