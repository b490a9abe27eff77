"""Turns what residency says of slots into admission's queue, and that queue's choice into what is dispatched.

A request first waits until there is a slot for its version, then has a lease on it, then waits for a place in the
engine. So what waits for a place holds its slot, and the fair queue never picks a request whose version is not in one.
When a slot may be had, tenants that are owed one are asked first, then those that borrow fewest, of these the one that
waits for longest; a tenant's own requests go as they came, and all that wait for the same version come along. So no
number of requests in front keeps another tenant from a slot. No other policy lives here.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import NOTHING
from hotset.core.errors import (
    AdapterColdError,
    EngineUnavailableError,
    LoadRateExceededError,
    LoadsFrozenError,
    ModelNotFoundError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.outlook import Outlook
from hotset.dispatch.wanting import Want, Wanting
from hotset.residency import invariants
from hotset.residency.charges import num_used_up
from hotset.residency.events import (
    Awaited,
    Dispatch,
    Effect,
    EngineGone,
    Event,
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
from hotset.residency.slots import Slot, SlotState

#: How long a tenant's request waits for a slot before one of its own busy ones is closed for it.
PATIENCE_S = 2.0
#: Stands for all tenants that hold no slot and are owed none: for them there is room or not alike. None is called this.
_NEWCOMER = TenantId("")


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request came in."""

    request: RequestId
    #: None for the bare base.
    name: EngineName | None
    tenant: TenantId
    #: Of its prompt, as well as is known before the engine reads it.
    input_tokens: int
    #: That it takes in the engine.
    num_sequences: int = 1
    #: What is left of its first-token budget; None sets none.
    budget_s: float | None = None


@dataclass(frozen=True, slots=True)
class Frozen:
    """No load and no eviction is to begin from now on, or they may again. What has begun ends."""

    is_frozen: bool


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
        self.outlook = Outlook(residency, queue)
        self._waiting_max = waiting_max
        #: Requests that were not dispatched yet.
        self._arrived: dict[RequestId, Arrived] = {}
        #: How many these are by tenant.
        self._num_arrived: Counter[TenantId] = Counter()
        #: Of those, the ones that no slot was found for yet.
        self._wanting = Wanting()
        #: Slots that close for an owed tenant, cleared of those that wait for a place.
        self._cleared: set[int] = set()
        self._is_frozen = False

    def handle(self, event: Arrived | Frozen | Event, now_s: float) -> list[Effect]:
        """Take one event and return the effects to carry out, in order; see `Residency.handle`."""
        match event:
            case Arrived():
                effects = self._arrive(event, now_s)
            case Frozen(is_frozen):
                self._is_frozen, effects = is_frozen, []
            case Released(request):
                self._let_go(request)
                self._wanting.remove(request)
                self.queue.leave(request)
                self.outlook.ended(request, now_s)
                effects = self.residency.handle(event, now_s)
            case EngineGone():
                effects = self.residency.handle(event, now_s)
                effects += self._refuse_queued(frozenset(), EngineUnavailableError.code, now_s)
                self.queue.clear()
                self.outlook.engine_gone()
            case Permitted(names):
                effects = self.residency.handle(event, now_s)
                effects += self._refuse_queued(names | {None}, ModelNotFoundError.code, now_s)
            case Loaded() | LoadFailed() | Lost():
                if self.residency.is_loading(event.slot, event.name):  # a lost unload ends no load
                    self.outlook.load_ended(event.name, event.load_s if isinstance(event, Loaded) else None, now_s)
                effects = self.residency.handle(event, now_s)
            case _:
                effects = self.residency.handle(event, now_s)
        effects += self._find_slots(now_s)
        effects = self._in_turn(effects, now_s)
        return [*effects, *self._clear_reclaimed(now_s)]

    def _is_promised(self, name: EngineName) -> bool:
        """Whether a version is in a slot, or will be."""
        return any(slot.promised() == name for slot in self.residency.state.slots)

    def is_wanting(self, request: RequestId) -> bool:
        """Whether no slot was found for a request yet."""
        return request in self._wanting

    @property
    def num_requests(self) -> int:
        """Requests that want a slot, wait or run."""
        return len(self.residency.state.leases) + len(self._wanting)

    def num_wanting(self) -> Counter[TenantId]:
        """Return how many requests no slot was found for yet, by tenant."""
        return self._wanting.counts()

    def _arrive(self, arrived: Arrived, now_s: float) -> list[Effect]:
        """Let a request wait, or refuse it at once: the queue is full, or it would miss its budget."""
        request, name, tenant = arrived.request, arrived.name, arrived.tenant
        if self._is_full(tenant):
            return [Refuse(request, TooManyRequestsError.code, "")]
        if self._is_frozen and name is not None and not self._is_promised(name):
            return [Refuse(request, LoadsFrozenError.code, "")]
        requested = Requested(request, name, tenant)
        decision = self.residency.decide(requested, now_s)
        if (refused := self._over_budget(arrived, now_s)) is not None:
            if decision.may_wait or refused.code != AdapterColdError.code:
                return [refused]
            # Brought in all the same, so that it is there when the client comes back.
            brought = self.residency.carry_out(replace(requested, is_forerunner=True), decision, now_s)
            is_refused = any(isinstance(effect, Refuse) and effect.request == request for effect in brought)
            return brought if is_refused else [*brought, refused]
        self._arrived[request] = arrived
        self._num_arrived[tenant] += 1
        if name is None or not decision.may_wait:
            return self.residency.carry_out(requested, decision, now_s)
        self._wanting.add(Want(request, name, tenant, now_s))
        return self.residency.handle(Awaited(request, name), now_s)

    def _over_budget(self, arrived: Arrived, now_s: float) -> Refuse | None:
        """Return the refusal of a request whose first token would come too late."""
        if arrived.budget_s is None:
            return None
        outlook = self.outlook.until_first_token(arrived.name, arrived.tenant, arrived.num_sequences, now_s)
        if outlook.safe_s <= arrived.budget_s:
            return None
        until_hot = self.outlook.until_hot(arrived.name, arrived.tenant, now_s)
        if until_hot == NOTHING:
            wait_s = outlook.expected_s - arrived.budget_s
            return Refuse(arrived.request, TooManyRequestsError.code, "", _milliseconds(wait_s))
        return Refuse(arrived.request, AdapterColdError.code, "", _milliseconds(until_hot.expected_s))

    def _find_slots(self, now_s: float) -> list[Effect]:
        """Ask residency again for those that no slot was found for."""
        effects: list[Effect] = []
        if not len(self._wanting):
            return effects
        for slot in self.residency.state.slots:
            effects += self._lease(self._wanting.of_version(slot.promised()), now_s)
        if self._is_frozen:
            return [*effects, *self._refuse(list(self._wanting), LoadsFrozenError.code, now_s)]
        while (want := self._next_ready(now_s)) is not None:
            others = [other for other in self._wanting.of_version(want.name) if other is not want]
            found = self._lease([want], now_s)
            if any(isinstance(effect, Refuse) and effect.code == LoadRateExceededError.code for effect in found):
                others = self._wanting.of_tenant(want.tenant)  # none of them may cause a load now
            effects += [*found, *self._lease(others, now_s)]
        return effects

    def _next_ready(self, now_s: float) -> Want | None:
        """Return whose turn it is of those that a slot may be had for now."""
        ready = (self._ready(tenant, now_s) for tenant in self._in_turns(now_s))
        return next((want for want in ready if want is not None), None)

    def _in_turns(self, now_s: float) -> list[TenantId]:
        """Return the tenants that may find a slot, in the order in which they are asked."""
        accounts, state = self.residency.accounts, self.residency.state
        known = {*state.held, *accounts.reserving()}
        if self.residency.room(_NEWCOMER):
            candidates = self._wanting.tenants()
        else:
            candidates = [tenant for tenant in known if self._wanting.has(tenant)]

        def turn(tenant: TenantId) -> tuple[int, float, TenantId]:
            borrowed = num_used_up(state, tenant) - accounts.share(tenant).reserve
            return max(-1, borrowed), next(self._wanting.firsts(tenant)).since_s, tenant

        return sorted(candidates, key=turn)

    def _ready(self, tenant: TenantId, now_s: float) -> Want | None:
        """Return the first of a tenant's requests that a slot may be had for now."""
        for want in self._wanting.firsts(tenant):
            # What leaves a slot has to be out first, whatever room there is for others.
            if not self.residency.state.is_leaving(want.name):
                return None if self.residency.decide(self._request(want, now_s), now_s).may_wait else want
        return None

    def _lease(self, wants: list[Want], now_s: float) -> list[Effect]:
        """Let requests want no more, and ask residency for them."""
        effects: list[Effect] = []
        for want in wants:
            self._wanting.remove(want.request)
            effects += self.residency.handle(self._request(want, now_s), now_s)
        return effects

    def _clear_reclaimed(self, now_s: float) -> list[Effect]:
        """Let those want anew that wait for a place with a version whose slot closes for an owed tenant.

        Else as many as a borrower lets queue there would have to run first.
        """
        effects: list[Effect] = []
        for slot in self.residency.state.slots:
            is_reclaimed = slot.state is SlotState.CLOSING and slot.leaving == "reserve"
            if is_reclaimed and slot.index not in self._cleared:
                self._cleared.add(slot.index)
                effects += self._clear(slot, now_s)
            elif not is_reclaimed:
                self._cleared.discard(slot.index)
        return effects

    def _clear(self, slot: Slot, now_s: float) -> list[Effect]:
        leases = self.residency.state.leases
        queued = [request for request in self.queue.waiting() if leases[request].slot == slot.index]
        if len(queued) == slot.num_running:
            queued = queued[1:]  # nothing of it runs: it serves one before it goes (I4)
        effects: list[Effect] = []
        for request in queued:
            arrived = self._arrived[request]
            assert arrived.name is not None, f"{request} of the base has a slot"
            self.queue.leave(request)
            effects += self.residency.handle(Released(request), now_s)
            effects += self.residency.handle(Awaited(request, arrived.name, is_again=True), now_s)
            self._wanting.add(Want(request, arrived.name, arrived.tenant, now_s))
        return effects

    def _request(self, want: Want, now_s: float) -> Requested:
        return Requested(want.request, want.name, want.tenant, is_impatient=now_s - want.since_s >= PATIENCE_S)

    def check(self) -> None:
        """Assert the invariants of both, and that they agree on who holds what.

        Raises:
            AssertionError: they do not; the message says where.
        """
        invariants.check(self.residency.state)
        self.queue.check()
        leases = self.residency.state.leases
        self._wanting.check()
        demand = self.residency.demand
        awaited = [request for request in self._wanting if request in demand]
        assert len(awaited) == len(self._wanting) == len(demand), "residency does not know of all that want a slot"
        assert set(self._wanting) <= self._arrived.keys(), "a request wants a slot that never came"
        assert self._num_arrived == Counter(each.tenant for each in self._arrived.values()), f"{self._num_arrived}"
        leased = self._arrived.keys() - set(self._wanting)
        assert leased == {request for request in leases if request in self._arrived}, "a request waits without a lease"
        in_queue = {request for request in leases if request in self.queue}
        assert len(in_queue) == self.queue.num_running + self.queue.num_waiting, "queued without a lease"
        assert all(leases[request].running for request in in_queue), "queued without a slot"

    def _refuse_queued(self, kept: frozenset[EngineName | None], code: str, now_s: float) -> list[Effect]:
        """Refuse those that wait for a slot, and those that wait for a place with their version in its slot.

        Those whose version loads are residency's to refuse. Of these versions nobody is refused.
        """
        refused = [
            request
            for request, arrived in self._arrived.items()
            if arrived.name not in kept and (request in self.queue or request in self._wanting)
        ]
        return self._refuse(refused, code, now_s)

    def _refuse(self, requests: list[RequestId], code: str, now_s: float) -> list[Effect]:
        """Refuse requests that wait."""
        effects: list[Effect] = []
        for request in requests:
            self._let_go(request)
            self._wanting.remove(request)
            self.queue.leave(request)
            effects += [Refuse(request, code, ""), *self.residency.handle(Released(request), now_s)]
        return effects

    def _in_turn(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """Let what has its slot wait for a place; return the rest of the effects, and who may go now."""
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Dispatch(request):
                    arrived = self._arrived[request]
                    self.queue.enter(
                        request,
                        arrived.tenant,
                        input_tokens=arrived.input_tokens,
                        num_sequences=arrived.num_sequences,
                    )
                case Refuse(request):
                    self._let_go(request)
                    rest.append(effect)
                case Load(_, name):
                    self.outlook.load_asked(name, now_s)
                    rest.append(effect)
                case _:
                    rest.append(effect)
        started = self.queue.start()
        for request in started:
            self._let_go(request)
            self.outlook.dispatched(request, now_s)
        return [*rest, *map(Dispatch, started)]

    def _is_full(self, tenant: TenantId) -> bool:
        """Whether a tenant may let no more requests wait, so that one that floods leaves as much to the others."""
        return self._num_arrived[tenant] >= self._waiting_max - len(self._arrived)

    def _let_go(self, request: RequestId) -> None:
        """Count a request among those that wait no more; unknown ones are ignored."""
        arrived = self._arrived.pop(request, None)
        if arrived is not None:
            self._num_arrived[arrived.tenant] -= 1
            if not self._num_arrived[arrived.tenant]:
                del self._num_arrived[arrived.tenant]


def _milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
