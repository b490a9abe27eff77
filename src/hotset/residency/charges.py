"""Who is charged for a slot or files that others use, and when a charge moves on. Pure."""

from hotset.core.ids import EngineName, TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.slots import Slot, SlotState, State

_USED = (SlotState.LOADING, SlotState.HOT)


def is_lent_out(slot: Slot) -> bool:
    """Whether others alone use the slot of who is charged for it."""
    return bool(slot.users) and slot.account not in slot.users and slot.state in _USED


def lent_out(state: State, tenant: TenantId) -> list[Slot]:
    """Return the slots that are charged to a tenant and that others alone use."""
    if tenant not in state.held:
        return []
    return [slot for slot in state.slots if slot.account == tenant and is_lent_out(slot)]


def num_used_up(state: State, tenant: TenantId) -> int:
    """Return how many slots a tenant holds when it asks for another: those that others alone use do not count."""
    return state.held.get(tenant, 0) - len(lent_out(state, tenant))


def is_owed(state: State, accounts: Accounts, tenant: TenantId) -> bool:
    """Whether a tenant holds less than its reserve when it asks for another slot."""
    return num_used_up(state, tenant) < accounts.share(tenant).reserve


def move_charge(state: State, accounts: Accounts, slot: Slot) -> None:
    """Charge a slot to one that uses it where the one charged does so no more and has more than it is owed."""
    account = slot.account
    if account is not None and is_lent_out(slot) and state.kept[account] > accounts.share(account).reserve:
        heirs = (user for user in slot.users if state.held.get(user, 0) < accounts.share(user).limit)
        _pass_on(state, accounts, slot, next(heirs, account))


def hand_over(state: State, accounts: Accounts, tenant: TenantId) -> None:
    """Charge one that uses a tenant's slot for it, now that the tenant has another: at its limit, too."""
    lent = lent_out(state, tenant)
    if lent and state.held[tenant] > accounts.share(tenant).reserve:
        users = lent[0].users
        heir = min(users, key=lambda user: state.held.get(user, 0) >= accounts.share(user).limit)
        _pass_on(state, accounts, lent[0], heir)


def charge_files(state: State, accounts: Accounts, name: EngineName, tenant: TenantId) -> None:
    """Charge a version's files to a tenant that uses it, unless that would take them out of another's reserve."""
    warm, account = state.warm, state.warm.account(name)
    if account in (None, tenant):
        return
    num_bytes = warm.num_bytes(name)
    if warm.held(account) - num_bytes >= accounts.share(account).reserve_bytes:
        warm.add(name, num_bytes, tenant)


def _pass_on(state: State, accounts: Accounts, slot: Slot, heir: TenantId) -> None:
    """Charge a slot, and the files of what is in it, to an heir."""
    state.charge(slot, heir)
    if slot.name is not None:
        charge_files(state, accounts, slot.name, heir)
