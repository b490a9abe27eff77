"""What the processes of an installation tell the person on call: their last minute, and what they know of one request.

Each process tells what arose in it, and control puts it together: nothing here is a mean, so that it can be. A gateway
says nothing of other tenants' adapters, for it does not know; who evicted what is the workers' to tell. Durations are
seconds.
"""

from collections.abc import Iterable

import msgspec

from hotset.core.ids import EngineName, RequestId, WorkerId
from hotset.core.residency_report import SlotEvent
from hotset.core.time_counts import TimeCounts, merged_counts, quantile


class Activity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last minute of one process, or of several together."""

    #: Requests that a gateway let in and that have not ended.
    in_flight: int = 0
    #: In the last minute: ``requests``, ``refusals``, ``loads``, ``evictions``.
    per_minute: dict[str, int] = {}
    #: Times to the first token in the last minute, by tenant.
    first_tokens: dict[str, TimeCounts] = {}
    #: By lane: requests that wait at a worker, and how long the oldest has.
    queue: dict[str, tuple[int, float]] = {}
    #: What recent engine steps of several adapters would have taken with one, and what they took.
    batching: tuple[float, float] = (0.0, 0.0)

    @property
    def batch_efficiency(self) -> float | None:
        """See `telemetry.batching`; None where it is not known."""
        alone_s, taken_s = self.batching
        return alone_s / taken_s if taken_s > 0 else None

    def first_token_quantiles(self, shares: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
        """Return for each tenant with a first token in the last minute the times that these shares do not pass."""
        return {
            tenant: tuple(quantile(counts, share) for share in shares) for tenant, counts in self.first_tokens.items()
        }


class RequestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its gateway keeps it, never a word of prompt or answer. Null where it did not come that far.

    A field with a default came later than others: what an older release wrote is read without it.
    """

    request_id: RequestId
    #: Wall-clock seconds at which the request's head had arrived.
    at: float
    tenant: str
    key: str
    #: As the client wrote it where it was resolved, else empty: a foreign name is never logged.
    alias: str
    #: ``owner/name``, empty for a base.
    adapter: str
    #: The version's number, 0 for a base.
    version: int
    #: Digest of the base version.
    base: str
    #: ``chat``, ``completions`` or ``responses``.
    endpoint: str
    stream: bool
    #: ``hot``, ``loading``, ``async`` where it is answered later, or empty where none was decided.
    lane: str
    prompt_tokens: int
    completion_tokens: int
    queue_s: float | None
    load_s: float | None
    first_token_s: float | None
    total_s: float
    outcome: str
    #: The error's code, empty where there was none.
    code: str
    #: First-token budget asked for or set by default, in milliseconds; null where there was none.
    budget_ms: int | None = None
    #: Milliseconds after which the client was told to come back; null where it was not.
    retry_after_ms: int | None = None
    #: The job that the request was accepted as, or a try of which it is; empty where there is none.
    job: str = ""
    #: The worker that accepted it; empty where none did, and where one process is all.
    worker: str = ""
    #: Seconds from the whole body to the first token, as the worker expected when the request began to wait; null where
    #: it did not wait, or nothing was known to tell by.
    expected_s: float | None = None


class RequestAtWorker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request as a worker that it was sent to remembers it."""

    worker: WorkerId | None = None
    #: Since it came.
    age_s: float
    #: None for the bare base.
    version: EngineName | None = None
    lane: str
    #: Until it was dispatched or refused; None while it waits.
    waited_s: float | None = None
    #: Of the error that it was refused with; empty where it was not.
    code: str = ""
    #: The last time before it that its version left a slot here; None for a hot one, and where that is not known.
    evicted: SlotEvent | None = None
    #: The load that it waited for.
    loaded: SlotEvent | None = None


class Unreached(msgspec.Struct, frozen=True):
    """A gateway or worker that could not be asked, or says nothing new: what it knows is missing, or old."""

    role: str
    name: str
    reason: str

    def __str__(self) -> str:
        """Say so in words."""
        return f"{self.role} {self.name}: {self.reason}"


def merged(activities: Iterable[Activity]) -> Activity:
    """Return what several processes did together: sums, the oldest of those who wait, and times counted as one."""
    parts = list(activities)
    queue: dict[str, tuple[int, float]] = {}
    for lane, (count, oldest_s) in (item for part in parts for item in part.queue.items()):
        known, known_oldest_s = queue.get(lane, (0, 0.0))
        queue[lane] = known + count, max(known_oldest_s, oldest_s)
    tenants = sorted({tenant for part in parts for tenant in part.first_tokens})
    names = dict.fromkeys(name for part in parts for name in part.per_minute)
    return Activity(
        in_flight=sum(part.in_flight for part in parts),
        per_minute={name: sum(part.per_minute.get(name, 0) for part in parts) for name in names},
        first_tokens={tenant: merged_counts(part.first_tokens.get(tenant, {}) for part in parts) for tenant in tenants},
        queue=queue,
        batching=(sum(part.batching[0] for part in parts), sum(part.batching[1] for part in parts)),
    )
