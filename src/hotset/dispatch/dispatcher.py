"""Turns what residency says of slots into admission's queue, and that queue's choice into what is dispatched.

A request first waits until there is a slot for its version, then has a lease on it, then waits for a place in the
engine. So what waits for a place holds its slot, and the fair queue never picks a request whose version is not in one.
Whose turn it is for a slot is `slot_finder`'s. No other policy lives here.
"""

import math
from collections import Counter
from dataclasses import dataclass

import msgspec

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import NOTHING
from hotset.core.errors import (
    AdapterColdError,
    EngineUnavailableError,
    LoadsFrozenError,
    ModelNotFoundError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.arrivals import Arrivals, Arrived
from hotset.dispatch.clearing import Clearing
from hotset.dispatch.outlook import Outlook
from hotset.dispatch.prefetching import FetchFailed, Homes, Prefetch
from hotset.dispatch.slot_finder import SlotFinder
from hotset.residency import invariants
from hotset.residency.events import (
    Cut,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Fetched,
    Load,
    Loaded,
    LoadFailed,
    Lost,
    Permitted,
    Refuse,
    Released,
    Requested,
)
from hotset.residency.residency import Residency
from hotset.residency.slots import SlotState


@dataclass(frozen=True, slots=True)
class Frozen:
    """No load and no eviction is to begin from now on, or they may again. What has begun ends."""

    is_frozen: bool


#: What a dispatcher is told.
Told = Arrived | Frozen | Homes | FetchFailed | Event


class Dispatcher:
    """Decides for one worker. Of residency's effects `Dispatch` comes later, when a place in the engine is free."""

    def __init__(self, residency: Residency, queue: FairQueue, *, waiting_max: int) -> None:
        """Put the two together.

        Args:
            residency: Of this worker, without any lease yet.
            queue: Of this worker, empty.
            waiting_max: Requests that may wait, for a slot or for a place; of one tenant never more than
                are left for others, so at most half.
        """
        self.residency = residency
        self.queue = queue
        self._finder = SlotFinder(residency)
        self.outlook = Outlook(residency, queue, self._finder.wanting)
        #: Requests that were not dispatched yet.
        self._arrivals = Arrivals(waiting_max)
        self._clearing = Clearing(residency, queue, self._arrivals, self._finder)
        self._prefetch = Prefetch(residency)
        self._is_frozen = False

    def handle(self, event: Told, now_s: float) -> list[Effect]:
        """Take one event and return the effects to carry out, in order; see `Residency.handle`."""
        effects = self._take(event, now_s)
        effects += self._finder.find(now_s, may_load=not self._is_frozen)
        if self._is_frozen:
            effects += self._refuse(list(self._finder), LoadsFrozenError.code, now_s)
        effects = [*self._in_turn(effects, now_s), *self._clearing.clear(now_s)]
        if early := self._prefetched(now_s):
            effects += self._in_turn(early, now_s)
        return effects

    def _take(self, event: Told, now_s: float) -> list[Effect]:
        """Take the event itself; what follows for those that wait comes after it."""
        effects = list[Effect]()
        match event:
            case Arrived():
                effects = self._arrive(event, now_s)
            case Released(request):
                self._arrivals.let_go(request)
                self._finder.remove(request)
                self.queue.leave(request)
                self.outlook.ended(request, now_s)
                effects = self.residency.handle(event, now_s)
            case Frozen(is_frozen):
                self._is_frozen = is_frozen
            case Homes(here):
                self._prefetch.aim(here)
            case FetchFailed(name):
                self._prefetch.ended(name, is_here=False)
            case EngineGone():
                effects = self.residency.handle(event, now_s)
                effects += self._refuse_queued(frozenset(), EngineUnavailableError.code, now_s)
                self.queue.clear()
                self.outlook.engine_gone()
                self._prefetch.clear()
            case Permitted(names):
                effects = self.residency.handle(event, now_s)
                effects += self._refuse_queued(names | {None}, ModelNotFoundError.code, now_s)
            case _:
                self._note(event, now_s)
                effects = self.residency.handle(event, now_s)
        return effects

    def _note(self, event: Event, now_s: float) -> None:
        """See what an event says of how long things take, and of what was brought in."""
        if isinstance(event, Fetched):
            self._prefetch.ended(event.name, is_here=True)
        if isinstance(event, Loaded | LoadFailed | Lost) and self.residency.is_loading(event.slot, event.name):
            # A lost unload ends no load.
            self.outlook.load_ended(event.name, event.load_s if isinstance(event, Loaded) else None, now_s)

    def _prefetched(self, now_s: float) -> list[Effect]:
        """Return what to bring in that nobody asked for, where nobody waits for a slot or a load."""
        if self._prefetch.is_done or self._is_frozen or len(self._finder) or self.outlook.is_loading:
            self._prefetch.look_again_at_s = None  # what ends this is an event, not time
            return []
        return self._prefetch.next(self.outlook.sizes, now_s, may_load=not len(self._arrivals))

    def is_wanting(self, request: RequestId) -> bool:
        """Whether no slot was found for a request yet."""
        return request in self._finder

    def waits_for_slot(self, request: RequestId) -> bool:
        """Whether a request waits for a slot, not for a load: none was found, or others run in the one found."""
        if self.is_wanting(request):
            return True
        state = self.residency.state
        lease = state.leases.get(request)
        return lease is not None and lease.slot is not None and state.slots[lease.slot].state is SlotState.CLOSING

    @property
    def look_again_at_s(self) -> float | None:
        """When time alone may change what was decided, monotonic seconds: `TimePassed` is due then; None for never."""
        soonest_s: float | None = None
        for at_s in (self._finder.look_again_at_s, self.residency.cuts_at_s, self._prefetch.look_again_at_s):
            if at_s is not None and (soonest_s is None or at_s < soonest_s):
                soonest_s = at_s
        return soonest_s

    @property
    def num_requests(self) -> int:
        """Requests that want a slot, wait or run."""
        return len(self.residency.state.leases) + len(self._finder.wanting)

    def num_wanting(self) -> Counter[TenantId]:
        """Return how many requests no slot was found for yet, by tenant."""
        return self._finder.counts()

    def _arrive(self, arrived: Arrived, now_s: float) -> list[Effect]:
        """Let a request wait, or refuse it at once: the queue is full, or it would miss its budget."""
        request, name, tenant = arrived.request, arrived.name, arrived.tenant
        if self._arrivals.is_full(tenant):
            return [Refuse(request, TooManyRequestsError.code, "")]
        if self._is_frozen and name is not None and name not in self.residency.state.promises:
            return [Refuse(request, LoadsFrozenError.code, "")]
        is_due = name is not None and self.outlook.came_back(name, tenant, now_s)
        requested = Requested(request, name, tenant)
        decision = self.residency.decide(requested, now_s)
        if (refused := self._over_budget(arrived, now_s, is_due=is_due)) is not None:
            if decision.may_wait or refused.code != AdapterColdError.code:
                return [refused]
            # Brought in all the same, so that it is there when the client comes back.
            brought = self.residency.carry_out(msgspec.structs.replace(requested, is_forerunner=True), decision, now_s)
            is_refused = any(isinstance(effect, Refuse) and effect.request == request for effect in brought)
            return brought if is_refused else [*brought, refused]
        self._arrivals.add(arrived, self.queue.lowest())
        if name is None or not decision.may_wait:
            return self.residency.carry_out(requested, decision, now_s)
        return self._finder.want(request, name, tenant, now_s)

    def _over_budget(self, arrived: Arrived, now_s: float, *, is_due: bool) -> Refuse | None:
        """Return the refusal of a request whose first token would come too late.

        Of one that comes when it was told to, only where that is to be expected: else of all that come in turn, as the
        worker can serve them, the last ones would be sent away again for what might go wrong.
        """
        if arrived.budget_s is None:
            return None
        outlook = self.outlook.until_first_token(arrived.name, arrived.tenant, arrived.num_sequences, now_s)
        if (outlook.expected_s if is_due else outlook.safe_s) <= arrived.budget_s:
            return None
        until_hot = self.outlook.until_return(arrived.name, arrived.tenant, now_s)
        if arrived.name is None or until_hot == NOTHING:
            wait_s = outlook.expected_s - arrived.budget_s
            return Refuse(arrived.request, TooManyRequestsError.code, "", _milliseconds(wait_s))
        self.outlook.told(arrived.name, arrived.tenant, until_hot.expected_s, now_s)
        return Refuse(arrived.request, AdapterColdError.code, "", _milliseconds(until_hot.expected_s))

    def check(self) -> None:
        """Assert the invariants of both, and that they agree on who holds what.

        Raises:
            AssertionError: they do not; the message says where.
        """
        invariants.check(self.residency.state)
        self.queue.check()
        leases = self.residency.state.leases
        self._finder.check()
        self._arrivals.check()
        waiting = [each.request for each in self._arrivals if each.request not in self._finder]
        assert all(request in leases for request in waiting), "a request waits without a lease"
        assert len(self._arrivals) - len(waiting) == len(self._finder), "a request wants a slot that never came"
        in_queue = {request for request in leases if request in self.queue}
        assert len(in_queue) == self.queue.num_running + self.queue.num_waiting, "queued without a lease"
        assert all(leases[request].running for request in in_queue), "queued without a slot"

    def _refuse_queued(self, kept: frozenset[EngineName | None], code: str, now_s: float) -> list[Effect]:
        """Refuse those that wait for a slot, and those that wait for a place with their version in its slot.

        Those whose version loads are residency's to refuse. Of these versions nobody is refused.
        """
        refused = [
            arrived.request
            for arrived in self._arrivals
            if arrived.name not in kept and (arrived.request in self.queue or arrived.request in self._finder)
        ]
        return self._refuse(refused, code, now_s)

    def _refuse(self, requests: list[RequestId], code: str, now_s: float) -> list[Effect]:
        """Refuse requests that wait."""
        effects: list[Effect] = []
        for request in requests:
            self._arrivals.let_go(request)
            self._finder.remove(request)
            self.queue.leave(request)
            effects += [Refuse(request, code, ""), *self.residency.handle(Released(request), now_s)]
        return effects

    def _in_turn(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """Let what has its slot wait for a place; return the rest of the effects, and who may go now."""
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Dispatch(request):
                    arrived = self._arrivals[request]
                    self.queue.enter(
                        request,
                        arrived.tenant,
                        input_tokens=arrived.input_tokens,
                        num_sequences=arrived.num_sequences,
                        adapter=arrived.name,
                        lowest=self._arrivals.has_slot(request, now_s),
                    )
                case Refuse(request):
                    self._arrivals.let_go(request)
                    rest.append(effect)
                case Cut(request) if request in self._arrivals:
                    pass  # it waits for a place, as the first that its version serves (I4): it is cut in its time
                case Load(_, name):
                    self.outlook.load_asked(name, now_s)
                    rest.append(effect)
                case _:
                    rest.append(effect)
        for request in self.queue.start():
            self.outlook.dispatched(request, now_s)
            self.residency.begins(request, now_s)
            rest.append(Dispatch(request, self._arrivals.let_go(request)))
        return rest


def _milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
