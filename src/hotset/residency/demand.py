"""When each version is needed again: what waits for a slot is needed in its turn, of the rest there is a guess. Pure.

What waits is served in order of arrival, about as fast as it came. So a version whose first waiting request came so
many seconds after the first of all is needed in as many, and one with nothing waiting, whatever the guess says, not
before all that waits has had its turn.
"""

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from hotset.core.ids import EngineName, RequestId
from hotset.residency.reuse import ReuseModel

#: The least that a turn takes; tells those apart that came at once.
_TURN_S = 0.001


class _Place(NamedTuple):
    """One request's place among those that wait."""

    name: EngineName
    #: Monotonic seconds: when it came.
    since_s: float
    #: How many came before it, ever.
    number: int


class Demand:
    """What waits for a slot, and a guess of what comes."""

    def __init__(self, reuse: ReuseModel) -> None:
        """Start with nothing that waits."""
        self._reuse = reuse
        #: In order of arrival.
        self._places: dict[RequestId, _Place] = {}
        #: The same by version; none is kept without a request.
        self._waiting: dict[EngineName, dict[RequestId, _Place]] = {}
        self._num_waited = 0

    def __contains__(self, request: RequestId) -> bool:
        return request in self._places

    def __len__(self) -> int:
        return len(self._places)

    def asked(self, name: EngineName, now_s: float) -> None:
        """Count a request for a version."""
        self._reuse.asked(name, now_s)

    def waits(self, request: RequestId, name: EngineName, now_s: float) -> None:
        """A request waits for a slot from now on."""
        assert request not in self._places, f"request {request} waits twice"
        place = _Place(name, now_s, self._num_waited)
        self._num_waited += 1
        self._places[request] = place
        self._waiting.setdefault(name, {})[request] = place

    def waits_no_more(self, request: RequestId) -> None:
        """A request found its slot, or gave up; unknown ones are ignored."""
        place = self._places.pop(request, None)
        if place is not None:
            del self._waiting[place.name][request]
            if not self._waiting[place.name]:
                del self._waiting[place.name]

    def forget(self, kept: frozenset[EngineName]) -> None:
        """Drop every version that is not among these."""
        self._reuse.forget(kept)
        for request in [request for request, place in self._places.items() if place.name not in kept]:
            self.waits_no_more(request)

    def log_seconds(self, name: EngineName, now_s: float) -> float:
        """Return the expected natural logarithm of the seconds until a version is needed; inf if never asked."""
        return self.log_seconds_of((name,), now_s)[0]

    def log_seconds_of(self, names: Sequence[EngineName], now_s: float) -> list[float]:
        """Return the same of several versions; the guesses themselves where nothing waits."""
        if not self._places:
            return self._reuse.log_seconds_of(names, now_s)
        oldest, waiting = next(iter(self._places.values())), self._waiting
        queue_s = now_s - oldest.since_s
        guesses = iter(self._reuse.log_seconds_of([name for name in names if name not in waiting], now_s))
        logs: list[float] = []
        for name in names:
            if (places := waiting.get(name)) is None:
                logs.append(log(max(_TURN_S, queue_s + exp(next(guesses)))))
            else:
                first = next(iter(places.values()))
                turn_s = (first.number - oldest.number + 1) * _TURN_S
                logs.append(log(max(turn_s, first.since_s - oldest.since_s)))
        return logs
