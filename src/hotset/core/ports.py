"""The ports between rooms that may not import each other: gateway to agent, control to snapshot holders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from hotset.core.fleet import Suspicion
from hotset.core.ids import AdapterId, Digest, KeyId, RequestId, Route, TenantId
from hotset.core.messages import EngineEvent, Generate
from hotset.core.residency_report import WorkerReport

Lane = Literal["hot", "loading"]


class Work(msgspec.Struct, frozen=True):
    """One request as the gateway hands it to an agent: who asks, the route bound for it, what to generate."""

    request_id: RequestId
    tenant: TenantId
    key: KeyId
    route: Route
    generate: Generate
    #: What is left of the first-token budget when this is handed over; None sets no budget.
    budget_ms: int | None = None
    #: Of the snapshot in which the route was resolved.
    epoch: int = 0


class Ticket(Protocol):
    """An accepted request's hold on its version (the lease) and its stream of events.

    The lease ends once the engine is done with the request, read or not. The holder must see to it that it is: read
    events until `Finished` or `Failed`, or call `abort`.
    """

    lane: Lane
    #: Seconds until its version was in its slot; 0 where it was there.
    load_seconds: float
    #: Who accepted it; empty where it is in the same process.
    worker: str

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; never an empty list before the end.

        After the last event (`Finished` or `Failed`) it returns an empty list.
        """
        ...

    async def abort(self) -> None:
        """End the request in the engine and release the lease; harmless after the end."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """The agent's first word on work that is not dispatched at once: it waits, and for how long that should be."""

    lane: Lane
    #: Seconds from the work's arrival at the agent to its first token; None where nothing was seen yet to tell by.
    expected_s: float | None


OnWaiting = Callable[[Waiting], None]


class Agent(Protocol):
    """The process beside one engine that alone talks to it, as a gateway sees it."""

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> Ticket:
        """Accept the work once its version is in a slot, or refuse it.

        A caller whose client leaves cancels the call; then nothing is held and no lease is left.

        Args:
            work: What to do.
            on_waiting: Hears at once of work that waits, on the event loop, before the call returns; not of work that
                is dispatched or refused as it comes.

        Raises:
            SlotsFullError: every slot that the tenant may take holds a version with a running lease.
            LoadsFrozenError: the version is in no slot, and an operator stopped all loads.
            LoadRateExceededError: the tenant's requests caused as many loads as its quota allows for now.
            AdapterColdError: the first token would come after the budget, or did not come in it.
            TooManyRequestsError: the agent holds as many requests as it may.
            LoadFailedError: the version's bytes or approval failed their check, or the engine refused them.
            EngineUnavailableError: the engine is not serving, or serves another base; or the agent can't be reached, or
                was lost before it accepted.
            StaleRouteError: the route was resolved in an older snapshot than the agent's, which no longer has it.
            ModelNotFoundError: the route is not in the snapshot that the agent applies.
            ShuttingDownError: the agent ends.
        """
        ...

    def is_ready(self) -> bool:
        """Whether the engine serves."""
        ...

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together; 0 before the engine serves."""
        ...


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What an operator took back; it covers the requests that match every field that is set."""

    tenant: TenantId | None = None
    key: KeyId | None = None
    #: Every version of this adapter.
    adapter: AdapterId | None = None
    #: Every version of these bytes.
    digest: Digest | None = None
    #: The bare base, not the adapters over it.
    base: Digest | None = None

    def covers(self, tenant: TenantId, key: KeyId, route: Route) -> bool:
        """Whether a running request of this tenant, key and route is to end."""
        return (
            self.tenant in (None, tenant)
            and self.key in (None, key)
            and self.adapter in (None, route.adapter)
            and self.digest in (None, route.digest)
            and (self.base is None or (route.is_base and route.base == self.base))
        )


class SuspicionSource(Protocol):
    """Something that knows which versions workers hold back because engines went wrong: an agent."""

    def suspicions(self) -> Mapping[str, Sequence[Suspicion]]:
        """Return them by worker, the likeliest of each incident first; said until the snapshot lacks the version.

        Called on the event loop's thread; must return at once.
        """
        ...


class ResidencyViewer(Protocol):
    """Something that knows who is in the slots of one or several workers: an agent."""

    def view_residency(self) -> Sequence[WorkerReport]:
        """Return a report of each worker as it is at this moment; changes nothing.

        Called on the event loop's thread; must return at once.
        """
        ...
