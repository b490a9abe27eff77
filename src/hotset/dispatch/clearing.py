"""Lets those want a slot anew that wait for a place with a version whose slot closes for an owed tenant.

Else as many as a borrower lets queue there would have to run before the slot is its owner's.
"""

from hotset.admission.fair_queue import FairQueue
from hotset.dispatch.arrivals import Arrivals
from hotset.dispatch.slot_finder import SlotFinder
from hotset.residency.events import Effect, Released
from hotset.residency.reclaim import is_reclaimed
from hotset.residency.residency import Residency
from hotset.residency.slots import Slot


class Clearing:
    """Clears each closing slot once."""

    def __init__(self, residency: Residency, queue: FairQueue, arrivals: Arrivals, finder: SlotFinder) -> None:
        """Start with no slot that closes."""
        self._residency = residency
        self._queue = queue
        self._arrivals = arrivals
        self._finder = finder
        self._cleared: set[int] = set()

    def clear(self, now_s: float) -> list[Effect]:
        """Clear the slots that close for an owed tenant since the last time."""
        effects, state = list[Effect](), self._residency.state
        if not state.num_closing:
            self._cleared.clear()
            return effects
        for slot in state.slots:
            if not is_reclaimed(slot):
                self._cleared.discard(slot.index)
            elif slot.index not in self._cleared:
                self._cleared.add(slot.index)
                effects += self._clear(slot, now_s)
        return effects

    def _clear(self, slot: Slot, now_s: float) -> list[Effect]:
        leases = self._residency.state.leases
        queued = [request for request in self._queue.waiting() if leases[request].slot == slot.index]
        if len(queued) == slot.num_running:
            queued = queued[1:]  # nothing of it runs: it serves one before it goes (I4)
        effects: list[Effect] = []
        for request in queued:
            arrived = self._arrivals[request]
            assert arrived.name is not None, f"{request} of the base has a slot"
            self._queue.leave(request)
            effects += self._residency.handle(Released(request), now_s)
            effects += self._finder.want(request, arrived.name, arrived.tenant, now_s, is_again=True)
        return effects
