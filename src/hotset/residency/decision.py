"""What a request for a version gets now: its slot, room for it, a refusal, or a wait. Changes nothing."""

import math
from collections.abc import Sequence

import msgspec

from hotset.core.errors import LoadFailedError, LoadRateExceededError, ModelNotFoundError, SlotsFullError
from hotset.core.ids import TenantId
from hotset.residency.accounts import Accounts
from hotset.residency.charges import is_owed, num_used_up
from hotset.residency.events import Refuse, Requested
from hotset.residency.room import TURN_S, find_room
from hotset.residency.slots import Slot, SlotState, State
from hotset.residency.stall import StallBudget

_MAKES_ROOM = "The adapter makes room for another; try again shortly."
_AT_LIMIT = "Your adapters hold every slot that you may take; all of them are in use."
_PAUSES = "Loads pause so that running requests go on; try again shortly."


class Decision(msgspec.Struct, frozen=True):
    """What would be done for a request now; with the first three empty it goes to the bare base."""

    #: Where its version is or will be.
    slot: Slot | None = None
    #: Else the slots of which its version takes the least worthy.
    room: Sequence[Slot] = ()
    #: Else what it is told.
    refusal: Refuse | None = None
    #: Whether that is for want of a slot alone, so that it may as well wait.
    may_wait: bool = False
    #: After how many seconds time alone will have changed that; None where it will not.
    again_in_s: float | None = None


def decide(state: State, accounts: Accounts, stall: StallBudget, requested: Requested, now_s: float) -> Decision:
    """Return what would be done for a request now."""
    request, name, tenant = requested.request, requested.name, requested.tenant
    if name is None:
        return Decision()
    if name not in state.permitted:
        return Decision(refusal=Refuse(request, ModelNotFoundError.code, ""))
    if state.load_failed_until_s.get(name, now_s) > now_s:
        return Decision(refusal=Refuse(request, LoadFailedError.code, ""))
    if (slot := state.promises.get(name)) is not None:
        return Decision(slot)
    if state.is_leaving(name):
        return Decision(refusal=Refuse(request, SlotsFullError.code, _MAKES_ROOM), may_wait=True)
    if (wait_s := accounts.seconds_to_next_load(tenant, now_s)) > 0:
        return Decision(refusal=Refuse(request, LoadRateExceededError.code, "", math.ceil(wait_s * 1000)))
    hot_before_s = now_s - TURN_S if requested.has_waited_a_turn else None
    room = find_room(state, accounts, tenant, is_impatient=requested.is_impatient, hot_before_s=hot_before_s)
    if not room:
        is_at_limit = num_used_up(state, tenant) >= accounts.share(tenant).limit
        return Decision(refusal=Refuse(request, SlotsFullError.code, _AT_LIMIT if is_at_limit else ""), may_wait=True)
    if (wait_s := stall_wait_s(state, accounts, stall, tenant, now_s)) > 0:
        refusal = Refuse(request, SlotsFullError.code, _PAUSES, math.ceil(wait_s * 1000))
        return Decision(refusal=refusal, may_wait=True, again_in_s=wait_s)
    return Decision(room=room)


def stall_wait_s(state: State, accounts: Accounts, stall: StallBudget, tenant: TenantId, now_s: float) -> float:
    """Return how long the next load for a tenant has to wait, so that what runs is not stalled for too long."""
    if stall.lasts(len(state.slots), now_s):
        return 0.0
    under_way = sum(slot.state is SlotState.LOADING or slot.successor is not None for slot in state.slots)
    return stall.seconds_to_next(now_s, num_under_way=under_way, is_owed=is_owed(state, accounts, tenant))
