"""Finds slots for requests that have none yet: whose turn it is, and when to look again.

Tenants that are owed a slot are asked first, then those that borrow fewest, of these the one that waits for longest; a
tenant's own requests go as they came, and all that wait for the same version come along. So no number of requests in
front keeps another tenant from a slot.
"""

import math
from collections import Counter
from collections.abc import Iterator

from hotset.core.errors import LoadRateExceededError
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.dispatch.wanting import Want, Wanting
from hotset.residency.charges import num_used_up
from hotset.residency.events import Awaited, Effect, Refuse, Requested
from hotset.residency.residency import Residency
from hotset.residency.room import TURN_S, turn_ends_at_s

#: How long a tenant's request waits for a slot before one of its own busy ones is closed for it.
PATIENCE_S = 2.0
#: Stands for all tenants that hold no slot and are owed none: for them there is room or not alike. None is called this.
_NEWCOMER = TenantId("")


class SlotFinder:
    """Holds the requests that want a slot, and asks residency for them."""

    def __init__(self, residency: Residency) -> None:
        """Start with none."""
        self._residency = residency
        self.wanting = Wanting()
        #: When time alone may change what was found last, monotonic seconds; None where it will not.
        self.look_again_at_s: float | None = None

    def __contains__(self, request: RequestId) -> bool:
        return request in self.wanting

    def __iter__(self) -> Iterator[RequestId]:
        return iter(self.wanting)

    def __len__(self) -> int:
        return len(self.wanting)

    def counts(self) -> Counter[TenantId]:
        """Return how many requests want a slot, by tenant."""
        return self.wanting.counts()

    def want(
        self, request: RequestId, name: EngineName, tenant: TenantId, now_s: float, *, is_again: bool = False
    ) -> list[Effect]:
        """Let a request want a slot from now on.

        Args:
            request: Holds no lease.
            name: Its version.
            tenant: Whose it is.
            now_s: Monotonic seconds.
            is_again: Whether it had a slot and lost it.
        """
        self.wanting.add(Want(request, name, tenant, now_s))
        self._look_again_in(PATIENCE_S, now_s)
        return self._residency.handle(Awaited(request, name, is_again=is_again), now_s)

    def remove(self, request: RequestId) -> None:
        """Forget a request; an unknown one is ignored. Residency is told by `Released`."""
        self.wanting.remove(request)

    def find(self, now_s: float, *, may_load: bool = True) -> list[Effect]:
        """Ask residency again for those that no slot was found for.

        Args:
            now_s: Monotonic seconds.
            may_load: Whether slots may be found for versions that are in none.
        """
        effects: list[Effect] = []
        self.look_again_at_s = None
        if not len(self.wanting):
            return effects
        for slot in self._residency.state.slots:
            effects += self._lease(self.wanting.of_version(slot.promised()), now_s)
        while may_load and (want := self._next_ready(now_s)) is not None:
            others = [other for other in self.wanting.of_version(want.name) if other is not want]
            found = self._lease([want], now_s)
            if any(isinstance(effect, Refuse) and effect.code == LoadRateExceededError.code for effect in found):
                others = self.wanting.of_tenant(want.tenant)  # none of them may cause a load now
            effects += [*found, *self._lease(others, now_s)]
        return effects

    def check(self) -> None:
        """Assert that residency knows of all that want a slot."""
        self.wanting.check()
        demand = self._residency.demand
        awaited = [request for request in self.wanting if request in demand]
        assert len(awaited) == len(self.wanting) == len(demand), "residency does not know of all that want a slot"

    def _next_ready(self, now_s: float) -> Want | None:
        """Return whose turn it is of those that a slot may be had for now."""
        ready = (self._ready(tenant, now_s) for tenant in self._in_turns(now_s))
        return next((want for want in ready if want is not None), None)

    def _in_turns(self, now_s: float) -> list[TenantId]:
        """Return the tenants that may find a slot, in the order in which they are asked."""
        accounts, state = self._residency.accounts, self._residency.state
        has_room = bool(self._residency.room(_NEWCOMER))
        if has_room and not self._is_stalled(now_s):
            candidates = self.wanting.tenants()
        else:
            candidates = [tenant for tenant in {*state.held, *accounts.reserving()} if self.wanting.has(tenant)]
            candidates += [] if has_room else self._without_a_turn(now_s)

        def turn(tenant: TenantId) -> tuple[int, float, TenantId]:
            borrowed = num_used_up(state, tenant) - accounts.share(tenant).reserve
            return max(-1, borrowed), next(self.wanting.firsts(tenant)).since_s, tenant

        return sorted(candidates, key=turn)

    def _is_stalled(self, now_s: float) -> bool:
        """Whether newcomers' loads have to wait for the worker's stall budget."""
        wait_s = self._residency.stall_wait_s(_NEWCOMER, now_s)
        if wait_s:
            self._look_again_in(wait_s, now_s)
        return wait_s > 0

    def _without_a_turn(self, now_s: float) -> list[TenantId]:
        """Return the tenants that hold nothing, are owed nothing and waited for a turn, once some slot has had its own.

        Else a borrower that is never idle would keep them from every slot for ever.
        """
        residency = self._residency
        turned_at_s = turn_ends_at_s(residency.state, residency.accounts)
        if turned_at_s is None:
            return []
        waited_at_s = {
            tenant: max(turned_at_s, next(self.wanting.firsts(tenant)).since_s + TURN_S)
            for tenant in self.wanting.tenants()
            if tenant not in residency.state.held and not residency.accounts.reserve(tenant)
        }
        if waited_at_s:
            self._look_again_in(min(waited_at_s.values()) - now_s, now_s)
        return [tenant for tenant, at_s in waited_at_s.items() if at_s <= now_s]

    def _ready(self, tenant: TenantId, now_s: float) -> Want | None:
        """Return the first of a tenant's requests that a slot may be had for now."""
        for want in self.wanting.firsts(tenant):
            # What leaves a slot has to be out first, whatever room there is for others.
            if self._residency.state.is_leaving(want.name):
                continue
            decision = self._residency.decide(self._request(want, now_s), now_s)
            if not decision.may_wait:
                return want
            self._look_again_in(decision.again_in_s or want.since_s + PATIENCE_S - now_s, now_s)
            return None
        return None

    def _look_again_in(self, seconds: float, now_s: float) -> None:
        if seconds > 0:
            self.look_again_at_s = min(now_s + seconds, self.look_again_at_s or math.inf)

    def _lease(self, wants: list[Want], now_s: float) -> list[Effect]:
        """Let requests want no more, and ask residency for them."""
        effects: list[Effect] = []
        for want in wants:
            self.wanting.remove(want.request)
            effects += self._residency.handle(self._request(want, now_s), now_s)
        return effects

    def _request(self, want: Want, now_s: float) -> Requested:
        waited_s = now_s - want.since_s
        return Requested(
            want.request,
            want.name,
            want.tenant,
            is_impatient=waited_s >= PATIENCE_S,
            has_waited_a_turn=waited_s >= TURN_S,
        )
