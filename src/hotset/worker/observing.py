"""What one engine's life shows of itself: who waits and since when, how good predictions were, what came and went."""

from collections import deque
from collections.abc import Iterator
from typing import Literal

import msgspec

from hotset.core.clock import Clock
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.ports import Lane
from hotset.core.residency_report import SlotEvent
from hotset.telemetry.metrics import Metrics
from hotset.worker.recollection import Recollection

#: Loads and evictions that are kept for whoever asks.
_EVENTS_MAX = 256
PrefetchStep = Literal["fetch", "load"]


class _Arrival(msgspec.Struct, frozen=True):
    name: EngineName | None
    lane: Lane
    at_s: float
    #: Seconds from then to the first token; None where nothing was predicted.
    predicted_s: float | None


class Observer:
    """Hears what happens and changes nothing."""

    def __init__(self, metrics: Metrics, clock: Clock, recollection: Recollection) -> None:
        self._metrics = metrics
        self._recollection = recollection
        self._clock = clock
        #: Requests that wait for their slot or their place.
        self._waiting: dict[RequestId, _Arrival] = {}
        #: Requests whose first token was predicted and has not come.
        self._predicted: dict[RequestId, _Arrival] = {}
        self._events: deque[tuple[float, SlotEvent]] = deque(maxlen=_EVENTS_MAX)
        self._num_events = 0
        #: Versions that were brought in before anybody asked, and by which step last, until somebody does.
        self._prefetched: dict[EngineName, PrefetchStep] = {}

    def arrived(self, request: RequestId, name: EngineName | None, lane: Lane, predicted_s: float | None) -> None:
        """A request came; `settled` follows."""
        arrival = _Arrival(name, lane, self._clock.monotonic_s(), predicted_s)
        self._waiting[request] = arrival
        self._recollection.arrived(request, name, lane)
        if predicted_s is not None:
            self._predicted[request] = arrival

    def settled(self, request: RequestId) -> None:
        """A request waits no more, whatever came of it."""
        self._waiting.pop(request, None)
        self._recollection.settled(request)

    def first_token(self, request: RequestId) -> None:
        """A request's first token came."""
        arrival = self._predicted.pop(request, None)
        if arrival is not None and arrival.predicted_s is not None:
            taken_s = self._clock.monotonic_s() - arrival.at_s
            self._metrics.predicted(taken_s - arrival.predicted_s)

    def ended(self, request: RequestId) -> None:
        """A request's lease ended; an unknown one is ignored."""
        self._predicted.pop(request, None)

    def looked_up(self, name: EngineName | None, tier: str) -> None:
        """A request's version was found in a tier."""
        self._metrics.lookup(tier)
        step = None if name is None else self._prefetched.pop(name, None)
        if step is not None and tier != "cold":
            self._metrics.prefetched(step, "used")

    def prefetched(self, name: EngineName, step: "PrefetchStep", outcome: str) -> None:
        """A version's files, or the version itself, came before anybody asked, or failed to."""
        self._metrics.prefetched(step, outcome)
        if outcome == "done":
            self._prefetched[name] = step

    def forgotten(self, name: EngineName) -> None:
        """A version's files leave the local store: what was prefetched of it is not there any more."""
        self._prefetched.pop(name, None)

    def loaded(self, version: EngineName, tenant: TenantId | None, tier: str, seconds: float, cause: str = "") -> None:
        """A version came into a slot that a tenant is charged for; `cause` is ``prefetch`` where nobody had asked."""
        found = SlotEvent(kind="loaded", version=version, tenant=tenant, tier=tier, seconds=seconds, cause=cause)
        self._note(found)

    def evicted(
        self,
        version: EngineName,
        cause: str,
        victim: TenantId | None,
        by: TenantId | None,
        successor: EngineName | None,
    ) -> None:
        """A version left its slot."""
        self._metrics.evicted(cause, victim or "")
        self._note(SlotEvent(kind="evicted", version=version, tenant=victim, cause=cause, by=by, successor=successor))

    def discarded(self, version: EngineName, cause: str, victim: TenantId | None, by: TenantId | None) -> None:
        """A version's files left the local store for others'."""
        self._metrics.store_evicted(cause, victim or "")
        self._note(SlotEvent(kind="discarded", version=version, tenant=victim, cause=cause, by=by))

    def events(self) -> tuple[SlotEvent, ...]:
        """Return the newest loads and evictions, oldest first, with how long ago each was."""
        now_s = self._clock.monotonic_s()
        return tuple(event.at_age(now_s - at_s) for at_s, event in self._events)

    def waits(self) -> Iterator[tuple[EngineName | None, Lane, float]]:
        """Yield version, lane and seconds so far of each request that waits."""
        now_s = self._clock.monotonic_s()
        for arrival in list(self._waiting.values()):
            yield arrival.name, arrival.lane, now_s - arrival.at_s

    def _note(self, event: SlotEvent) -> None:
        self._num_events += 1
        self._recollection.befell(event)
        self._events.append((self._clock.monotonic_s(), event.numbered(self._num_events)))
