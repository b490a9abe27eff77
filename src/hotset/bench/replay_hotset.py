"""Hotset's own residency in a replay: the production policy, with an engine that loads and unloads at once."""

from collections import deque

from hotset.core.clock import Clock
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import (
    Awaited,
    Dispatch,
    Effect,
    Event,
    Load,
    Loaded,
    Permitted,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.residency import Residency

#: More than any replay asks for: what is compared is the choice of the victim, not the budget.
_LOADS_PER_MINUTE = 1e9
_LOAD_S = 0.01
#: Adapters that it knows at least, asked for or not.
KNOWN_MIN = 10_000


class HotsetResidency:
    """One worker's `Residency`; every tenant may hold every slot, and none is owed any."""

    def __init__(
        self, adapters: frozenset[str], num_slots: int, clock: Clock, *, only_account: TenantId | None = None
    ) -> None:
        """Start with empty slots.

        Args:
            adapters: All that may be asked for.
            num_slots: Slots of the worker.
            clock: Times each decision.
            only_account: Who is charged for every request, in place of its tenant.
        """
        self._residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=max(len(adapters), KNOWN_MIN),
            loads_per_minute=_LOADS_PER_MINUTE,
            default_quota=Quota(limit_slots=num_slots),
        )
        self._only_account = only_account
        self._clock = clock
        self._num_seen = 0
        #: Requests that were announced, in order.
        self._announced: deque[RequestId] = deque()
        #: What each decision took, in seconds, the reading of the clock included.
        self.decisions_s: list[float] = []
        unasked = (f"unasked-{number}" for number in range(KNOWN_MIN - len(adapters)))
        self._residency.handle(Permitted(frozenset(map(EngineName, (*adapters, *unasked)))), 0.0)

    def see(self, at_s: float, adapter: str) -> None:
        """Let a request wait in sight."""
        self._announced.append(self._next_request())
        self._decide(Awaited(self._announced[-1], EngineName(adapter)), at_s)

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request, from its dispatch to its end, in no time."""
        request = self._announced.popleft() if self._announced else self._next_request()
        account = self._only_account or TenantId(tenant)
        effects = self._decide(Requested(request, EngineName(adapter), account), at_s)
        is_hit = effects == [Dispatch(request)]
        while effects:
            effects = [following for effect in effects for following in self._carry_out(effect, at_s)]
        self._decide(Released(request), at_s)
        return is_hit

    def _next_request(self) -> RequestId:
        self._num_seen += 1
        return RequestId(str(self._num_seen))

    def _decide(self, event: Event, at_s: float) -> list[Effect]:
        before_s = self._clock.monotonic_s()
        effects = self._residency.handle(event, at_s)
        self.decisions_s.append(self._clock.monotonic_s() - before_s)
        return effects

    def _carry_out(self, effect: Effect, at_s: float) -> list[Effect]:
        match effect:
            case Load(slot, name):
                return self._decide(Loaded(slot, name, 1, _LOAD_S), at_s)
            case Unload(slot, name):
                return self._decide(Unloaded(slot, name), at_s)
            case _:
                return []
