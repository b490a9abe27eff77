"""What happened in the last minute: times by tenant, and counts. One event loop writes and reads."""

from collections import deque

from hotset.core.time_counts import TimeCounts, bucket_of, merged_counts

WINDOW_S = 60.0
#: How finely the minute is cut: times leave it this many seconds' worth at once.
_SLICE_S = 5.0


class RecentTimes:
    """Times of one kind, by tenant, each counted for a minute."""

    def __init__(self) -> None:
        #: (number of the slice of time, by tenant the counts in it), oldest first.
        self._slices: deque[tuple[int, dict[str, TimeCounts]]] = deque()

    def add(self, tenant: str, seconds: float, now_s: float) -> None:
        """Take one in; the caller bounds the tenants."""
        number = int(now_s // _SLICE_S)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, {}))
            self._drop(now_s)
        counts = self._slices[-1][1].setdefault(tenant, {})
        bucket = bucket_of(seconds)
        counts[bucket] = counts.get(bucket, 0) + 1

    def forget(self, tenant: str) -> None:
        """Drop a tenant's times."""
        for _, by_tenant in self._slices:
            by_tenant.pop(tenant, None)

    def counts(self, now_s: float) -> dict[str, TimeCounts]:
        """Return for each tenant with a time in the last minute its times."""
        self._drop(now_s)
        tenants = sorted({tenant for _, by_tenant in self._slices for tenant in by_tenant})
        return {tenant: merged_counts(by_tenant.get(tenant, {}) for _, by_tenant in self._slices) for tenant in tenants}

    def _drop(self, now_s: float) -> None:
        while self._slices and (self._slices[0][0] + 1) * _SLICE_S <= now_s - WINDOW_S:
            self._slices.popleft()


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
