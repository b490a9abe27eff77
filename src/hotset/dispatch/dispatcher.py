"""Turns what residency says of slots into admission's queue, and that queue's choice into what is dispatched.

A request first waits until there is a slot for its version, then has a lease on it, then waits for a place in the
engine. So what waits for a place holds its slot, and the fair queue never picks a request whose version is not in one.
When a slot may be had, those that are owed one are asked first, then the others as they came; all that wait for the
same version come along. No other policy lives here.
"""

import math
from collections import Counter
from dataclasses import dataclass

from hotset.admission.fair_queue import FairQueue
from hotset.admission.first_token import NOTHING
from hotset.core.errors import (
    AdapterColdError,
    EngineUnavailableError,
    ModelNotFoundError,
    TooManyRequestsError,
)
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.outlook import Outlook
from hotset.residency import invariants
from hotset.residency.events import (
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
from hotset.residency.room import num_held

#: How long a tenant's request waits for a slot before one of its own busy ones is closed for it.
PATIENCE_S = 2.0
#: Of the requests that may wait, how many may be one tenant's: one over this.
_TENANT_SHARE = 2


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


class Dispatcher:
    """Decides for one worker. Of residency's effects `Dispatch` comes later, when a place in the engine is free."""

    def __init__(self, residency: Residency, queue: FairQueue, *, waiting_max: int) -> None:
        """Put the two together.

        Args:
            residency: Of this worker, without any lease yet.
            queue: Of this worker, empty.
            waiting_max: Requests that may wait, for a slot or for a place; half of them of one tenant.
        """
        self.residency = residency
        self.queue = queue
        self.outlook = Outlook(residency, queue)
        self._waiting_max = waiting_max
        #: Requests that were not dispatched yet.
        self._arrived: dict[RequestId, Arrived] = {}
        #: Of those, the ones that no slot was found for yet, and since when; in order of arrival.
        self._wanting: dict[RequestId, float] = {}

    def handle(self, event: Arrived | Event, now_s: float) -> list[Effect]:
        """Take one event and return the effects to carry out, in order; see `Residency.handle`."""
        match event:
            case Arrived():
                effects = self._arrive(event, now_s)
            case Released(request):
                self._arrived.pop(request, None)
                self._wanting.pop(request, None)
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
                self.outlook.load_ended(event.name, event.load_s if isinstance(event, Loaded) else None, now_s)
                effects = self.residency.handle(event, now_s)
            case _:
                effects = self.residency.handle(event, now_s)
        effects += self._find_slots(now_s)
        return self._in_turn(effects, now_s)

    def is_wanting(self, request: RequestId) -> bool:
        """Whether no slot was found for a request yet."""
        return request in self._wanting

    def num_wanting(self) -> Counter[TenantId]:
        """Return how many requests no slot was found for yet, by tenant."""
        return Counter(self._arrived[request].tenant for request in self._wanting)

    def _arrive(self, arrived: Arrived, now_s: float) -> list[Effect]:
        """Let a request wait, or refuse it at once: the queue is full, or it would miss its budget."""
        request = arrived.request
        if self._is_full(arrived.tenant):
            return [Refuse(request, TooManyRequestsError.code, "")]
        requested = Requested(request, arrived.name, arrived.tenant)
        must_wait = self.residency.must_wait(requested, now_s)
        outlook = self.outlook.until_first_token(arrived.name, arrived.tenant, arrived.num_sequences, now_s)
        if arrived.budget_s is None or outlook.safe_s <= arrived.budget_s:
            self._arrived[request] = arrived
            if not must_wait:
                return self.residency.handle(requested, now_s)
            self._wanting[request] = now_s
            return []
        until_hot = self.outlook.until_hot(arrived.name, arrived.tenant, now_s)
        if until_hot == NOTHING:
            wait_s = outlook.expected_s - arrived.budget_s
            return [Refuse(request, TooManyRequestsError.code, "", _milliseconds(wait_s))]
        refused = Refuse(request, AdapterColdError.code, "", _milliseconds(until_hot.expected_s))
        if must_wait:
            return [refused]
        # Brought in all the same, so that it is there when the client comes back.
        brought = self.residency.handle(requested, now_s)
        if any(isinstance(effect, Refuse) and effect.request == request for effect in brought):
            return brought
        return [*brought, *self.residency.handle(Released(request), now_s), refused]

    def _find_slots(self, now_s: float) -> list[Effect]:
        """Ask residency again for those that no slot was found for."""
        effects: list[Effect] = []
        tried: set[tuple[TenantId, bool]] = set()
        for request in sorted(self._wanting, key=self._is_borrower):
            arrived = self._arrived[request]
            is_impatient = now_s - self._wanting[request] >= PATIENCE_S
            requested = Requested(request, arrived.name, arrived.tenant, is_impatient)
            # Whether there is room depends on the tenant alone, so its others need not be asked for.
            if (arrived.tenant, is_impatient) in tried and not self._is_promised(arrived.name):
                continue
            if self.residency.must_wait(requested, now_s):
                tried.add((arrived.tenant, is_impatient))
            else:
                del self._wanting[request]
                effects += self.residency.handle(requested, now_s)
        return effects

    def _is_borrower(self, request: RequestId) -> bool:
        tenant = self._arrived[request].tenant
        return num_held(self.residency.state.slots)[tenant] >= self.residency.accounts.share(tenant).reserve

    def _is_promised(self, name: EngineName | None) -> bool:
        return any(slot.promised() == name for slot in self.residency.state.slots)

    def check(self) -> None:
        """Assert the invariants of both, and that they agree on who holds what.

        Raises:
            AssertionError: they do not; the message says where.
        """
        invariants.check(self.residency.state)
        self.queue.check()
        leases = self.residency.state.leases
        assert self._wanting.keys() <= self._arrived.keys(), "a request wants a slot that never came"
        leased = self._arrived.keys() - self._wanting.keys()
        assert leased == {request for request in leases if request in self._arrived}, "a request waits without a lease"
        in_queue = {request for request in leases if request in self.queue}
        assert len(in_queue) == self.queue.num_running + self.queue.num_waiting, "queued without a lease"
        assert all(leases[request].running for request in in_queue), "queued without a slot"

    def _refuse_queued(self, kept: frozenset[EngineName | None], code: str, now_s: float) -> list[Effect]:
        """Refuse those that wait for a slot, and those that wait for a place with their version in its slot.

        Those whose version loads are residency's to refuse. Of these versions nobody is refused.
        """
        effects: list[Effect] = []
        for request, arrived in list(self._arrived.items()):
            if arrived.name in kept or not (request in self.queue or request in self._wanting):
                continue
            del self._arrived[request]
            self._wanting.pop(request, None)
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
                    self._arrived.pop(request, None)
                    rest.append(effect)
                case Load(_, name):
                    self.outlook.load_asked(name, now_s)
                    rest.append(effect)
                case _:
                    rest.append(effect)
        started = self.queue.start()
        for request in started:
            del self._arrived[request]
            self.outlook.dispatched(request, now_s)
        return [*rest, *map(Dispatch, started)]

    def _is_full(self, tenant: TenantId) -> bool:
        own = sum(arrived.tenant == tenant for arrived in self._arrived.values())
        return len(self._arrived) >= self._waiting_max or own * _TENANT_SHARE >= self._waiting_max


def _milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
