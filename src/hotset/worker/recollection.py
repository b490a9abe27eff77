"""What an agent remembers of the newest requests that were sent to it, so that `hotset explain` can say why one waited.

It is the agent's, not its engine's: an engine that dies takes none of it away. Nothing of a prompt is in it.
"""

from collections import OrderedDict
from typing import TypeVar

import msgspec

from hotset.core.clock import Clock
from hotset.core.ids import EngineName, RequestId, WorkerId
from hotset.core.on_call import RequestAtWorker
from hotset.core.ports import Lane
from hotset.core.residency_report import SlotEvent

#: Requests that are remembered.
REQUESTS_MAX = 4096
#: Versions whose last eviction and load are known.
_VERSIONS_MAX = 4096

K = TypeVar("K")
V = TypeVar("V")


class _Seen(msgspec.Struct, eq=False):
    """One request. Moments in monotonic seconds."""

    at_s: float
    version: EngineName | None
    lane: Lane
    #: The last eviction of its version before it came, with its moment.
    evicted: tuple[float, SlotEvent] | None
    settled_at_s: float | None = None
    code: str = ""
    loaded: tuple[float, SlotEvent] | None = None


class Recollection:
    """Requests by id, and what befell versions last; the oldest of each are forgotten."""

    def __init__(self, clock: Clock, worker: WorkerId | None = None) -> None:
        """Begin with nothing.

        Args:
            clock: Where time comes from.
            worker: Who remembers.
        """
        self._clock = clock
        self._worker = worker
        self._requests: OrderedDict[RequestId, _Seen] = OrderedDict()
        self._evicted: OrderedDict[EngineName, tuple[float, SlotEvent]] = OrderedDict()
        self._loaded: OrderedDict[EngineName, tuple[float, SlotEvent]] = OrderedDict()

    def arrived(self, request: RequestId, version: EngineName | None, lane: Lane) -> None:
        """A request came; `settled` follows."""
        evicted = None if version is None or lane == "hot" else self._evicted.get(version)
        _put(self._requests, request, _Seen(self._clock.monotonic_s(), version, lane, evicted), REQUESTS_MAX)

    def settled(self, request: RequestId) -> None:
        """A request waits no more, whatever came of it; one that never arrived is ignored."""
        seen = self._requests.get(request)
        if seen is None:
            return
        seen.settled_at_s = self._clock.monotonic_s()
        loaded = None if seen.version is None or seen.lane == "hot" else self._loaded.get(seen.version)
        if loaded is not None and loaded[0] >= seen.at_s:
            seen.loaded = loaded

    def refused(self, request: RequestId, code: str) -> None:
        """A request was refused with an error of this code."""
        seen = self._requests.get(request)
        if seen is not None:
            seen.code = code

    def befell(self, event: SlotEvent) -> None:
        """A version came into a slot or left one."""
        events = self._loaded if event.kind == "loaded" else self._evicted
        _put(events, event.version, (self._clock.monotonic_s(), event), _VERSIONS_MAX)

    def of(self, request: RequestId) -> RequestAtWorker | None:
        """Return what is remembered of a request; None where nothing is."""
        seen = self._requests.get(request)
        if seen is None:
            return None
        now_s = self._clock.monotonic_s()

        def aged(event: tuple[float, SlotEvent] | None) -> SlotEvent | None:
            return None if event is None else event[1].at_age(now_s - event[0])

        return RequestAtWorker(
            worker=self._worker,
            age_s=now_s - seen.at_s,
            version=seen.version,
            lane=seen.lane,
            waited_s=None if seen.settled_at_s is None else seen.settled_at_s - seen.at_s,
            code=seen.code,
            evicted=aged(seen.evicted),
            loaded=aged(seen.loaded),
        )


def _put(table: "OrderedDict[K, V]", key: K, value: V, size_max: int) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > size_max:
        table.popitem(last=False)
