"""Hotset's own residency in a replay: the production policy, with an engine that loads and unloads at once."""

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import Dispatch, Effect, Load, Loaded, Permitted, Released, Requested, Unload, Unloaded
from hotset.residency.residency import Residency

#: More than any replay asks for: what is compared is the choice of the victim, not the budget.
_LOADS_PER_MINUTE = 1e9
_LOAD_S = 0.01


class HotsetResidency:
    """One worker's `Residency`; every tenant may hold every slot, and none is owed any."""

    def __init__(self, adapters: frozenset[str], num_slots: int) -> None:
        """Start with empty slots.

        Args:
            adapters: All that may be asked for.
            num_slots: Slots of the worker.
        """
        self._residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=len(adapters),
            loads_per_minute=_LOADS_PER_MINUTE,
            default_quota=Quota(limit_slots=num_slots),
        )
        self._residency.handle(Permitted(frozenset(map(EngineName, adapters))), 0.0)
        self._num_asked = 0

    def ask(self, at_s: float, tenant: str, adapter: str) -> bool:
        """Serve one request, from arrival to its end, in no time."""
        self._num_asked += 1
        request = RequestId(str(self._num_asked))
        effects = self._residency.handle(Requested(request, EngineName(adapter), TenantId(tenant)), at_s)
        is_hit = effects == [Dispatch(request)]
        while effects:
            effects = [following for effect in effects for following in self._carry_out(effect, at_s)]
        self._residency.handle(Released(request), at_s)
        return is_hit

    def _carry_out(self, effect: Effect, at_s: float) -> list[Effect]:
        match effect:
            case Load(slot, name):
                return self._residency.handle(Loaded(slot, name, 1, _LOAD_S), at_s)
            case Unload(slot, name):
                return self._residency.handle(Unloaded(slot, name), at_s)
            case _:
                return []
