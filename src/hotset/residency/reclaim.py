"""When what runs in a slot that goes back to its owner is cut. Pure.

A lent slot closes as soon as its owner needs it, and what runs there may go on. By the policy `finish` it runs to its
end, however long that takes; by `cut` it is ended once the owner has waited for `reclaim_s`.
"""

from dataclasses import dataclass
from typing import Literal

from hotset.core.ids import RequestId
from hotset.residency.slots import Slot, SlotState, State

ReclaimPolicy = Literal["finish", "cut"]


@dataclass(frozen=True, slots=True)
class Reclaim:
    """How long an owner waits for what runs in its slot."""

    policy: ReclaimPolicy = "finish"
    #: Seconds from the slot's closing on, by `cut`.
    after_s: float = 30.0

    def due_at_s(self, state: State) -> float | None:
        """Return when the next request is to be cut; None where none will be."""
        if self.policy != "cut":
            return None
        return min((slot.closing_since_s + self.after_s for slot in state.slots if self._cuts(slot)), default=None)

    def cut_due(self, state: State, now_s: float) -> list[RequestId]:
        """Return the requests that are to be cut now; their slots are marked, so that it is done once."""
        due: list[RequestId] = []
        for slot in state.slots:
            if self._cuts(slot) and now_s >= slot.closing_since_s + self.after_s:
                slot.is_cut = True
                due += [r for r, lease in state.leases.items() if lease.slot == slot.index and lease.running]
        return due

    def left_s(self, slot: Slot, now_s: float, *, is_taken_back: bool) -> float | None:
        """Return for how long what runs in a slot may still run before it is cut; None where it runs to its end.

        Args:
            slot: Requests run in it.
            now_s: Monotonic seconds.
            is_taken_back: Whether it would close for its owner from now on, where it does not do so yet.
        """
        if self.policy != "cut" or not (is_taken_back or is_reclaimed(slot)):
            return None
        since_s = slot.closing_since_s if is_reclaimed(slot) else now_s
        return max(0.0, since_s + self.after_s - now_s)

    def _cuts(self, slot: Slot) -> bool:
        return self.policy == "cut" and is_reclaimed(slot) and not slot.is_cut


def is_reclaimed(slot: Slot) -> bool:
    """Whether a slot closes for a tenant that is owed it, whyever what is in it leaves."""
    return slot.state is SlotState.CLOSING and slot.successor is not None and slot.is_owed


#: What runs runs to its end.
FINISH = Reclaim()
