"""What a residency looks like at one moment, for people: the same rules that decide say what would go next.

Nothing here changes the state, and nothing here decides.
"""

import heapq
import math
from collections import Counter
from collections.abc import Mapping

from hotset.core.ids import EngineName, TenantId
from hotset.core.residency_report import NextRoom, ResidencyReport, SlotReport, TenantReport, WarmReport
from hotset.residency.events import Cause
from hotset.residency.residency import Residency
from hotset.residency.slots import Slot, SlotState
from hotset.residency.warm import WarmFiles

#: How many warm versions are named.
LARGEST_MAX = 10
#: Stands for any tenant without slots and quota; no tenant can be called this.
_NEWCOMER = TenantId("")
_SERVING = (SlotState.HOT, SlotState.CLOSING)
_LEAVING = (SlotState.CLOSING, SlotState.UNLOADING)


def report(
    residency: Residency,
    now_s: float,
    *,
    wanting: Mapping[TenantId, int] | None = None,
    largest_max: int = LARGEST_MAX,
) -> ResidencyReport:
    """Return who holds which slot and why, and what goes next.

    Args:
        residency: Only read.
        now_s: Monotonic seconds, of the same clock as its events'.
        wanting: Requests that no slot was found for yet, by tenant; they hold no lease, so residency has none of them.
        largest_max: How many warm versions to name.
    """
    return ResidencyReport(
        slots=tuple(_slot(residency, slot, now_s) for slot in residency.state.slots),
        next=_next_room(residency, now_s),
        tenants=_tenants(residency, wanting or {}, now_s),
        warm=_warm(residency.state.warm, largest_max),
        reserves_cut=residency.accounts.cut,
        byte_reserves_cut=residency.accounts.bytes_cut,
    )


def _next_room(residency: Residency, now_s: float) -> NextRoom:
    """Return the slot that a tenant without any would take now, and what would leave it."""
    room = residency.room(_NEWCOMER)
    if not room:
        return NextRoom(slot=None)
    slot = residency.least_worthy(room, now_s)
    return NextRoom(slot=slot.index, leaves=slot.name if slot.state is SlotState.HOT else None)


def _slot(residency: Residency, slot: Slot, now_s: float) -> SlotReport:
    worth = residency.worth(slot, now_s) if slot.state is SlotState.HOT else -math.inf
    return SlotReport(
        index=slot.index,
        state=slot.state.value,
        version=slot.name,
        successor=slot.successor,
        account=slot.account,
        leaving=slot.leaving if slot.state in _LEAVING else None,
        hot_for_s=now_s - slot.hot_since_s if slot.state in _SERVING else None,
        load_s=slot.load_s or None,
        num_running=slot.num_running,
        num_waiting=slot.num_leases - slot.num_running,
        users=dict(sorted(slot.users.items())),
        slot_bytes=slot.slot_bytes or None,
        worth=worth if math.isfinite(worth) else None,
    )


def _tenants(residency: Residency, wanting: Mapping[TenantId, int], now_s: float) -> tuple[TenantReport, ...]:
    state, accounts = residency.state, residency.accounts
    ledger, store_ledger = residency.ledger, residency.store_ledger
    slot_bytes = Counter[TenantId]()
    for slot in state.slots:
        if slot.account is not None:
            slot_bytes[slot.account] += slot.slot_bytes
    shown = {*state.held, *wanting, *ledger.tenants(), *store_ledger.tenants()}
    shown |= {*accounts.reserving(), *accounts.bytes_reserving}
    shown |= {account for account in state.warm.accounts() if account is not None}
    return tuple(
        TenantReport(
            tenant=tenant,
            reserve=share.reserve,
            limit=share.limit,
            held=state.held.get(tenant, 0),
            num_wanting=wanting.get(tenant, 0),
            loads_left=accounts.loads_left(tenant, now_s),
            loads_per_minute=share.loads_per_minute,
            caused=_by_cause(part.caused),
            suffered=_by_cause(part.suffered),
            reserve_bytes=share.reserve_bytes,
            limit_bytes=share.limit_bytes,
            store_bytes=state.warm.held(tenant),
            slot_bytes=slot_bytes[tenant],
            store_caused=_by_cause(of_store.caused),
            store_suffered=_by_cause(of_store.suffered),
        )
        for tenant, share, part, of_store in (
            (tenant, accounts.share(tenant), ledger.of(tenant), store_ledger.of(tenant)) for tenant in sorted(shown)
        )
    )


def _by_cause(counts: Mapping[Cause, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _warm(warm: WarmFiles, largest_max: int) -> WarmReport:
    largest = heapq.nsmallest(largest_max, warm.items(), key=_by_size)
    return WarmReport(num_versions=len(warm), num_bytes=warm.total, largest=tuple(largest), bytes_max=warm.bytes_max)


def _by_size(item: tuple[EngineName, int]) -> tuple[int, EngineName]:
    """Order by bytes, the most first; then by name, so that reports of one state are the same."""
    name, num_bytes = item
    return -num_bytes, name
