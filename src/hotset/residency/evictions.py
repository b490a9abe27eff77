"""Takes a slot from one version for another, gives it back where nobody wants it any more, and keeps the ledger."""

from hotset.core.ids import EngineName, TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.charges import hand_over, is_owed, move_charge
from hotset.residency.events import Cause, Effect
from hotset.residency.ledger import Ledger
from hotset.residency.slots import Slot, SlotState, State
from hotset.residency.steps import close, start_load


class Evictions:
    """Promises slots."""

    def __init__(self, state: State, accounts: Accounts) -> None:
        """Start with nothing in the ledger."""
        self.ledger = Ledger()
        self._state = state
        self._accounts = accounts

    def promise(self, slot: Slot, name: EngineName, tenant: TenantId, now_s: float) -> list[Effect]:
        """Give the slot to the version: at once where it is empty, else once what is in it has left."""
        had = slot.account
        slot.closing_since_s, slot.is_cut = now_s, False
        slot.is_owed = had != tenant and is_owed(self._state, self._accounts, tenant)
        if slot.state is SlotState.HOT:
            effects = self._evict(slot, name, tenant)
        elif slot.state is SlotState.EMPTY:
            effects = start_load(self._state, slot, name)
        else:
            effects = list[Effect]()
            if slot.state is SlotState.CLOSING:
                slot.victim = had
            self._state.move(slot, slot.state, slot.name, name)
        if had != tenant:
            self._state.charge(slot, tenant)
            hand_over(self._state, self._accounts, tenant)
        return effects

    def reopen(self, slot: Slot) -> None:
        """Nobody waits for a slot that was to be given away: it is whose it was; what still runs there keeps it."""
        if slot.victim is not None:
            assert slot.account is not None, f"slot {slot.index} was promised to nobody"
            if slot.leaving != "withdrawn":
                self.ledger.undone(slot.account, slot.victim, slot.leaving)
            self._state.charge(slot, slot.victim)
            slot.victim = None
        slot.leaving = "withdrawn"
        stays = slot.num_running > 0 and slot.name in self._state.permitted
        self._state.move(slot, SlotState.HOT if stays else SlotState.CLOSING, slot.name)
        if stays:
            move_charge(self._state, self._accounts, slot)

    def _evict(self, slot: Slot, name: EngineName, tenant: TenantId) -> list[Effect]:
        """Let a hot version go for another one, of another tenant or the same."""
        victim = slot.account
        assert victim is not None, f"slot {slot.index} is hot and nobody's"
        cause: Cause = "own"
        if victim != tenant:
            kept, owed = self._state.kept[victim], self._accounts.share(victim).reserve
            assert kept > owed, f"I5: {victim} holds {kept} of {owed} owed"
            cause = "reserve" if slot.is_owed else "borrow"
        self.ledger.evicted(tenant, victim, cause)
        slot.victim = victim
        return close(self._state, slot, cause, name)
