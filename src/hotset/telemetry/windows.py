"""What happened in the last minute: quantiles of times by tenant, and counts. One event loop writes and reads."""

import math
from collections import deque

WINDOW_S = 60.0
#: Times kept of one tenant; of more than this in a minute the newest count.
_TIMES_MAX = 512


class RecentTimes:
    """Times of one kind, by tenant, each for a minute."""

    def __init__(self) -> None:
        #: Tenant → (when it was seen, seconds), oldest first.
        self._times: dict[str, deque[tuple[float, float]]] = {}

    def add(self, tenant: str, seconds: float, now_s: float) -> None:
        """Take one in; the caller bounds the tenants."""
        times = self._times.get(tenant)
        if times is None:
            times = self._times[tenant] = deque(maxlen=_TIMES_MAX)
        times.append((now_s, seconds))

    def forget(self, tenant: str) -> None:
        """Drop a tenant's times."""
        self._times.pop(tenant, None)

    def quantiles(self, shares: tuple[float, ...], now_s: float) -> dict[str, tuple[float, ...]]:
        """Return for each tenant with a time in the last minute the quantiles of these shares, nearest rank."""
        found: dict[str, tuple[float, ...]] = {}
        for tenant, times in list(self._times.items()):
            while times and times[0][0] <= now_s - WINDOW_S:
                times.popleft()
            if times:
                ordered = sorted(seconds for _, seconds in times)
                found[tenant] = tuple(ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares)
            else:
                del self._times[tenant]
        return found


class MinuteCount:
    """How often something happened in the last minute, to a second."""

    def __init__(self) -> None:
        #: (whole second, count), oldest first.
        self._seconds: deque[tuple[int, int]] = deque()

    def add(self, now_s: float) -> None:
        """Count once more."""
        second = int(now_s)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + 1)
        else:
            self._seconds.append((second, 1))
            self._drop(now_s)

    def count(self, now_s: float) -> int:
        """Return how often in the last minute."""
        self._drop(now_s)
        return sum(count for _, count in self._seconds)

    def _drop(self, now_s: float) -> None:
        while self._seconds and self._seconds[0][0] <= now_s - WINDOW_S:
            self._seconds.popleft()
