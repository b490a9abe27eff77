"""Which slots a tenant's version may take: the rules of reserve, limit and lending, and nothing else. Pure."""

from collections.abc import Mapping, Sequence

from hotset.core.ids import TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.charges import lent_out
from hotset.residency.slots import Slot, SlotState, State

_HOT = SlotState.HOT
#: How long a borrower's busy slot serves one version before a tenant without any slot, that waited as long, gets it.
TURN_S = 10.0


def find_room(
    state: State,
    accounts: Accounts,
    tenant: TenantId,
    *,
    is_impatient: bool = False,
    hot_before_s: float | None = None,
) -> Sequence[Slot]:
    """Return the slots of which a tenant's next version takes one; none where it may have none now.

    It is one that is empty, or emptying for nobody, or any that are hot and idle, or, for a tenant below its reserve,
    one that is hot and lent and busy, or closing for nobody, or, for an impatient tenant, its own and busy, or, for one
    that holds none and waited for a turn, one that is lent and busy and had its turn. No slot of a tenant at or
    under its reserve is ever among them, but the asking one's. Of several the least worthy goes.

    Args:
        state: All slots of the worker; only read.
        accounts: What tenants are owed and may hold.
        tenant: Who asks.
        is_impatient: Whether a slot of the tenant's own may be closed though requests run there.
        hot_before_s: Where the tenant waited for a turn: since when a slot has had its own, monotonic seconds.
    """
    num_lent = len(lent_out(state, tenant))
    num_held = state.held.get(tenant, 0) - num_lent
    share = accounts.share(tenant)
    is_owed, may_take = num_held < share.reserve, num_held < share.limit
    if free := _free(state, tenant if not may_take else None):
        return free
    idle = [slot for slot in state.slots if slot.state is _HOT and not slot.num_leases]
    own = [slot for slot in idle if slot.account == tenant]
    busy = _own_and_busy(state.slots, tenant) if is_impatient else ()
    turned_s = None if num_held else hot_before_s
    if not may_take or not (idle or is_owed or turned_s is not None):
        return own or busy
    borrowed = accounts.borrowed(state.kept)
    own_borrowed = borrowed.pop(tenant, 0) - num_lent
    if is_owed:
        # A lent slot, though it runs, before one of its own: else a busy borrower would keep what is owed for ever.
        return _lent(idle, borrowed, 0) or _lent_and_busy(state.slots, borrowed) or own or busy
    # Among borrowers slots go from those that borrow more to those that borrow less. A second one may be anybody's:
    # who borrows one alone would load anew whenever it asks for another version, while others' rest.
    room = [*own, *_lent(idle, borrowed, own_borrowed if own_borrowed > 1 else 0)] or busy
    return room or (() if turned_s is None else _turned(state.slots, borrowed, turned_s))


def turn_ends_at_s(state: State, accounts: Accounts) -> float | None:
    """Return when the first of the borrowers' slots has had its turn, monotonic seconds; None where there is none."""
    borrowed = accounts.borrowed(state.kept)
    lent = _lent([slot for slot in state.slots if slot.state is _HOT], borrowed, 0)
    return min((slot.hot_since_s + TURN_S for slot in lent), default=None)


def _free(state: State, charged_to: TenantId | None) -> Sequence[Slot]:
    """Return an empty slot, or one that empties for nobody; of those charged to one tenant alone where one is given."""
    if len(state.promises) == len(state.slots):
        return ()
    for wanted in (SlotState.EMPTY, SlotState.UNLOADING):
        for slot in state.slots:
            if slot.state is wanted and slot.successor is None and charged_to in (None, slot.account):
                return (slot,)
    return ()


def _lent(slots: Sequence[Slot], borrowed: Mapping[TenantId | None, int], least: int) -> Sequence[Slot]:
    """Return the slots of those that borrow more than so many."""
    return [slot for slot in slots if borrowed.get(slot.account, 0) > least]


def _lent_and_busy(slots: Sequence[Slot], borrowed: Mapping[TenantId | None, int]) -> Sequence[Slot]:
    """Return the slot that is back soonest: one that closes already, else the least leased of who borrows most."""
    for slot in slots:
        if slot.state is SlotState.CLOSING and slot.successor is None:
            return (slot,)
    lent = _lent([slot for slot in slots if slot.state is _HOT], borrowed, 0)
    return sorted(lent, key=lambda slot: (-borrowed[slot.account], slot.num_leases, slot.index))[:1]


def _turned(slots: Sequence[Slot], borrowed: Mapping[TenantId | None, int], hot_before_s: float) -> Sequence[Slot]:
    """Return, of who borrows most, the slot that serves one version for longest, where it has had its turn."""
    lent = _lent([slot for slot in slots if slot.state is _HOT and slot.hot_since_s <= hot_before_s], borrowed, 0)
    return sorted(lent, key=lambda slot: (-borrowed[slot.account], slot.hot_since_s, slot.index))[:1]


def _own_and_busy(slots: Sequence[Slot], tenant: TenantId) -> Sequence[Slot]:
    """Return the slot of a tenant that serves one version for longest; none while another of its closes already."""
    own = [slot for slot in slots if slot.account == tenant]
    if any(slot.state is SlotState.CLOSING for slot in own):
        return ()
    hot = [slot for slot in own if slot.state is SlotState.HOT]
    return sorted(hot, key=lambda slot: (slot.hot_since_s, slot.index))[:1]
