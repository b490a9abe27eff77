"""What each tenant is owed of a worker's slots and local store, what it may hold, and which loads it may cause.

Who holds what is not kept here: it is what the slots say, so there is one truth.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hotset.core.ids import TenantId
from hotset.core.quotas import DEFAULT_QUOTA, Quota

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Share:
    """A quota as it comes out on a worker of so many slots and with a local store of so many bytes."""

    reserve: int
    limit: int
    loads_per_minute: float
    reserve_bytes: int
    #: Beside what slots keep in the store.
    limit_bytes: int


@dataclass(slots=True)
class _Churn:
    """Loads that a tenant may still cause: at most a minute's worth, but one at least, refilled evenly."""

    loads_left: float
    counted_at_s: float


class Accounts:
    """The shares and the churn budgets of one worker's tenants."""

    def __init__(
        self, *, num_slots: int, store_bytes: int, loads_per_minute: float, default: Quota = DEFAULT_QUOTA
    ) -> None:
        """Start without any quota but the default.

        Args:
            num_slots: Usable slots of the worker.
            store_bytes: The bound of its local store.
            loads_per_minute: For tenants whose quota says nothing of it.
            default: The quota of tenants that have none.
        """
        self._num_slots = num_slots
        self._store_bytes = store_bytes
        self._loads_per_minute = loads_per_minute
        self._default = self._share(default)
        self._shares: dict[TenantId, Share] = {}
        #: Tenants with less than their whole budget, and perhaps others; the last to cause a load is last.
        self._churn: dict[TenantId, _Churn] = {}
        #: Tenants whose reserve was cut because all of them together pass the usable slots.
        self.cut: tuple[TenantId, ...] = ()
        #: The same of byte reserves and the local store.
        self.bytes_cut: tuple[TenantId, ...] = ()
        #: Tenants with a reserve of slots, cut or not, by name.
        self._reserving: tuple[TenantId, ...] = ()
        #: Tenants with a reserve of bytes, likewise.
        self.bytes_reserving: tuple[TenantId, ...] = ()

    def apply(self, quotas: Mapping[TenantId, Quota]) -> None:
        """Take over quotas; reserves that do not fit the worker are cut, in the order of tenants' names."""
        slots_left, bytes_left = self._num_slots, self._store_bytes
        cut, bytes_cut = list[TenantId](), list[TenantId]()
        self._shares = {}
        for tenant, quota in sorted(quotas.items()):
            share = self._share(quota)
            if share.reserve > slots_left:
                cut.append(tenant)
            if quota.reserve_bytes > bytes_left:
                bytes_cut.append(tenant)
            share = replace(
                share,
                reserve=min(share.reserve, slots_left),
                reserve_bytes=min(share.reserve_bytes, bytes_left),
            )
            slots_left -= share.reserve
            bytes_left -= share.reserve_bytes
            self._shares[tenant] = share
        self.cut, self.bytes_cut = tuple(cut), tuple(bytes_cut)
        self._reserving = tuple(tenant for tenant, share in self._shares.items() if share.reserve or tenant in cut)
        self.bytes_reserving = tuple(
            tenant for tenant, share in self._shares.items() if share.reserve_bytes or tenant in bytes_cut
        )

    def share(self, tenant: TenantId) -> Share:
        """Return what a tenant is owed and may hold."""
        return self._shares.get(tenant, self._default)

    def reserve(self, tenant: TenantId) -> int:
        """Return the slots that a tenant is owed."""
        return self._shares.get(tenant, self._default).reserve

    def borrowed(self, kept: Mapping[TenantId, int]) -> dict[TenantId | None, int]:
        """Return by how many slots more than it is owed each tenant keeps; below 0 where it is owed more."""
        shares, default = self._shares, self._default
        return {tenant: count - shares.get(tenant, default).reserve for tenant, count in kept.items()}

    @property
    def num_reserved(self) -> int:
        """Slots owed to all tenants together; never above the usable ones."""
        return sum(share.reserve for share in self._shares.values())

    @property
    def bytes_reserved(self) -> int:
        """Bytes owed to all tenants together; never above the local store's bound."""
        return sum(share.reserve_bytes for share in self._shares.values())

    def reserving(self) -> tuple[TenantId, ...]:
        """Return the tenants that are owed slots, or would be had their reserve not been cut, by name."""
        return self._reserving

    def seconds_to_next_load(self, tenant: TenantId, now_s: float) -> float:
        """Return how long a tenant has to wait before it may cause another load; 0 where it may now."""
        if tenant not in self._churn:
            return 0.0
        missing = 1.0 - self.loads_left(tenant, now_s)
        return missing * _MINUTE_S / self.share(tenant).loads_per_minute if missing > 0 else 0.0

    def charge_load(self, tenant: TenantId, now_s: float) -> None:
        """Count a load that a tenant's request caused."""
        loads_left = self.loads_left(tenant, now_s) - 1.0
        self._churn.pop(tenant, None)
        self._churn[tenant] = _Churn(loads_left, now_s)
        while self.loads_left(oldest := next(iter(self._churn)), now_s) >= self._loads_max(oldest):
            del self._churn[oldest]

    def loads_left(self, tenant: TenantId, now_s: float) -> float:
        """Return how many loads a tenant may still cause; below 1 it has to wait for the next."""
        most, churn = self._loads_max(tenant), self._churn.get(tenant)
        if churn is None:
            return most
        refilled = (now_s - churn.counted_at_s) * self.share(tenant).loads_per_minute / _MINUTE_S
        return min(most, churn.loads_left + refilled)

    def _loads_max(self, tenant: TenantId) -> float:
        return max(1.0, self.share(tenant).loads_per_minute)

    def _share(self, quota: Quota) -> Share:
        reserve = min(quota.reserve_slots, self._num_slots)
        limit = max(1, self._num_slots // 2) if quota.limit_slots is None else quota.limit_slots
        limit_bytes = self._store_bytes if quota.limit_bytes is None else quota.limit_bytes
        return Share(
            reserve=reserve,
            limit=min(max(reserve, limit), self._num_slots),
            loads_per_minute=quota.loads_per_minute or self._loads_per_minute,
            reserve_bytes=min(quota.reserve_bytes, self._store_bytes),
            limit_bytes=min(limit_bytes, self._store_bytes),
        )
