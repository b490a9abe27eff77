"""Which slot a tenant's version may take: the rules of reserve, limit and lending, and nothing else. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence

from hotset.core.ids import TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.slots import Slot, SlotState

#: The worth of what is in a slot: of two idle ones the lesser goes.
Worth = Callable[[Slot], float]


def num_held(slots: Sequence[Slot]) -> Counter[TenantId]:
    """Return how many slots are charged to each tenant."""
    return Counter(slot.account for slot in slots if slot.account is not None)


def num_kept(slots: Sequence[Slot]) -> Counter[TenantId]:
    """Return how many slots each tenant has to lose: those that empty for nobody are lost already."""
    return Counter(slot.account for slot in slots if slot.account is not None and slot.promised() is not None)


def lent_out(slots: Sequence[Slot], tenant: TenantId) -> list[Slot]:
    """Return the slots that are charged to a tenant and that others alone use."""
    used = (SlotState.LOADING, SlotState.HOT)
    return [
        slot
        for slot in slots
        if slot.account == tenant and slot.users and slot.state in used and tenant not in slot.users
    ]


def num_used_up(slots: Sequence[Slot], tenant: TenantId) -> int:
    """Return how many slots a tenant holds when it asks for another: those that others alone use do not count."""
    return num_held(slots)[tenant] - len(lent_out(slots, tenant))


def find_room(
    slots: Sequence[Slot], accounts: Accounts, tenant: TenantId, worth: Worth, *, is_impatient: bool = False
) -> Slot | None:
    """Return the slot that a tenant's next version takes, or None where it may have none now.

    The slot is empty, or emptying for nobody, or hot and idle, or, for a tenant below its reserve, hot and lent and
    busy, or closing for nobody, or, for an impatient tenant, its own and busy. No slot of a tenant at or under its
    reserve is ever among them, but the asking one's.

    Args:
        slots: All slots of the worker.
        accounts: What tenants are owed and may hold.
        tenant: Who asks.
        worth: Of what is in a slot.
        is_impatient: Whether a slot of the tenant's own may be closed though requests run there.
    """
    held = num_held(slots)
    kept = num_kept(slots)
    num_lent = len(lent_out(slots, tenant))
    held[tenant] -= num_lent
    kept[tenant] -= num_lent
    share = accounts.share(tenant)
    is_owed, may_take = held[tenant] < share.reserve, held[tenant] < share.limit
    if (free := _free(slots, tenant if not may_take else None)) is not None:
        return free

    def excess(other: TenantId | None) -> int:
        return 0 if other is None else kept[other] - accounts.share(other).reserve

    idle = [slot for slot in slots if slot.state is SlotState.HOT and slot.num_leases == 0]
    own = [slot for slot in idle if slot.account == tenant]
    others = [slot for slot in idle if slot.account != tenant]
    if is_owed:
        # A lent slot, though it runs, before one of its own: else a busy borrower would keep what is owed for ever.
        lent = [slot for slot in others if excess(slot.account) > 0]
        if not lent and (busy := _lent_and_busy(slots, tenant, excess)) is not None:
            return busy
        candidates = lent or own
    elif may_take:
        # Among borrowers slots go from those that borrow more to those that borrow less.
        candidates = own + [slot for slot in others if excess(slot.account) > max(0, excess(tenant))]
    else:
        candidates = own
    if candidates:
        return min(candidates, key=lambda slot: (worth(slot), slot.name or ""))
    return _own_and_busy(slots, tenant) if is_impatient else None


def _free(slots: Sequence[Slot], charged_to: TenantId | None) -> Slot | None:
    """Return an empty slot, or one that empties for nobody; of those charged to one tenant alone where one is given."""
    rank = {SlotState.EMPTY: 0, SlotState.UNLOADING: 1}
    free = [
        slot
        for slot in slots
        if slot.state in rank and slot.successor is None and (charged_to is None or slot.account == charged_to)
    ]
    return min(free, key=lambda slot: (rank[slot.state], slot.index), default=None)


def _lent_and_busy(slots: Sequence[Slot], tenant: TenantId, excess: Callable[[TenantId | None], int]) -> Slot | None:
    """Return the slot that is back soonest: one that closes already, else the least leased of who borrows most."""
    for slot in slots:
        if slot.state is SlotState.CLOSING and slot.successor is None:
            return slot
    lent = [
        slot for slot in slots if slot.state is SlotState.HOT and slot.account != tenant and excess(slot.account) > 0
    ]
    return min(lent, key=lambda slot: (-excess(slot.account), slot.num_leases, slot.index), default=None)


def _own_and_busy(slots: Sequence[Slot], tenant: TenantId) -> Slot | None:
    """Return the slot of a tenant that serves one version for longest; none while another of its closes already."""
    own = [slot for slot in slots if slot.account == tenant]
    if any(slot.state is SlotState.CLOSING for slot in own):
        return None
    hot = [slot for slot in own if slot.state is SlotState.HOT]
    return min(hot, key=lambda slot: (slot.hot_since_s, slot.index), default=None)
