"""Who can say what goes on: the one process that is all there is, or every gateway and worker of a fleet.

What could not be asked is always said beside what was told: a part is never shown for the whole.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from hotset.control.holders import Holders
from hotset.core.ids import RequestId
from hotset.core.on_call import Activity, RequestAtWorker, RequestEntry, Unreached
from hotset.links.holder_messages import (
    ActivityTold,
    AskActivity,
    AskRequest,
    AskUsage,
    RequestTold,
    UsageTold,
)

_ACTIVITY_S = 2.0
#: A gateway looks through all of its log's files.
_REQUEST_S = 10.0
_USAGE_S = 6.0
_APPLY_S = 2.0


@dataclass(frozen=True, slots=True)
class Activities:
    """The last minute of every process."""

    #: By role and name; of one process that is all, by two empty words.
    by_process: dict[tuple[str, str], Activity]
    unreached: list[Unreached] = field(default_factory=list[Unreached])


@dataclass(frozen=True, slots=True)
class RequestSeen:
    """What is known of one request."""

    #: Whose entry it is; None where one process is all.
    gateway: str | None = None
    entry: RequestEntry | None = None
    #: What each worker that it was sent to remembers.
    at_workers: list[RequestAtWorker] = field(default_factory=list[RequestAtWorker])
    unreached: list[Unreached] = field(default_factory=list[Unreached])


#: Looks for a request in the logs of this machine; gives the gateway's name where it has one.
LookUp = Callable[[RequestId], tuple[str | None, RequestEntry] | None]


class Witness(Protocol):
    """Who is asked by commands for the person on call."""

    async def activities(self) -> Activities:
        """Return what went on in the last minute."""
        ...

    async def request(self, request: RequestId) -> RequestSeen:
        """Return what is known of a request."""
        ...

    async def settle_usage(self) -> list[Unreached]:
        """Have everybody tell what was used up to now; return who could not."""
        ...

    async def missing(self, *roles: str) -> list[Unreached]:
        """Return who of these roles is not there, or silent."""
        ...

    async def applied(self, *roles: str) -> list[Unreached]:
        """Return who of these roles does not apply the newest snapshot, after a moment."""
        ...


class OwnProcess:
    """One process that is all: implements `Witness`."""

    def __init__(
        self,
        look_up: LookUp = lambda _: None,
        *,
        activity: Callable[[], Activity] = Activity,
        recall: Callable[[RequestId], list[RequestAtWorker]] = lambda _: [],
        absent: Callable[[], Awaitable[list[Unreached]]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            look_up: Looks for a request in the log; blocks.
            activity: Returns what went on in the last minute.
            recall: Returns what the agents remember of a request.
            absent: Returns the gateways and workers of a fleet whose control does not run; None where it is no fleet.
        """
        self._look_up = look_up
        self._activity = activity
        self._recall = recall
        self._absent = absent

    async def activities(self) -> Activities:
        """Return what went on in the last minute."""
        return Activities({("", ""): self._activity()}, await self.missing())

    async def request(self, request: RequestId) -> RequestSeen:
        """Return what is known of a request."""
        found = await asyncio.to_thread(self._look_up, request)
        gateway, entry = found or (None, None)
        return RequestSeen(gateway, entry, self._recall(request), await self.missing())

    async def settle_usage(self) -> list[Unreached]:
        """Nobody here has to be asked: who counts here is read with what is written."""
        return await self.missing()

    async def missing(self, *roles: str) -> list[Unreached]:
        """Nobody of this process is missing, but everybody of a fleet whose control does not run."""
        found = [] if self._absent is None else await self._absent()
        return [each for each in found if not roles or each.role in roles]

    async def applied(self, *roles: str) -> list[Unreached]:
        """Everybody here applies a snapshot at once."""
        return await self.missing(*roles)


class FleetWitness:
    """Gateways and workers in processes of their own: implements `Witness`."""

    def __init__(self, holders: Holders, look_up: LookUp) -> None:
        """Prepare.

        Args:
            holders: Those that are linked.
            look_up: Looks for a request in the logs of this machine, those of gateways that are gone among them.
        """
        self._holders = holders
        self._look_up = look_up

    async def activities(self) -> Activities:
        """Ask everybody for the last minute."""
        replies, missing = await asyncio.gather(
            self._holders.ask(AskActivity, timeout_s=_ACTIVITY_S), self._holders.missing()
        )
        told = {
            (peer.role, peer.name): each.activity
            for peer, each in replies.told.items()
            if isinstance(each, ActivityTold)
        }
        return Activities(told, _all_of(missing, replies.unreached))

    async def request(self, request: RequestId) -> RequestSeen:
        """Ask all gateways until one knows, and all workers; then look in the logs that gateways left here."""
        gateways, workers, missing = await asyncio.gather(
            self._holders.ask(
                lambda number: AskRequest(number, request),
                "gateway",
                timeout_s=_REQUEST_S,
                is_enough=lambda told: any(isinstance(each, RequestTold) and each.entry for each in told),
            ),
            self._holders.ask(lambda number: AskRequest(number, request), "worker", timeout_s=_ACTIVITY_S),
            self._holders.missing(),
        )
        found = next(
            (
                (peer.name, told.entry)
                for peer, told in gateways.told.items()
                if isinstance(told, RequestTold) and told.entry is not None
            ),
            None,
        ) or await asyncio.to_thread(self._look_up, request)
        gateway, entry = found or (None, None)
        at_workers = [
            told.at_worker
            for told in workers.told.values()
            if isinstance(told, RequestTold) and told.at_worker is not None
        ]
        unreached = _all_of(missing, gateways.unreached, workers.unreached)
        return RequestSeen(gateway, entry, at_workers, unreached)

    async def settle_usage(self) -> list[Unreached]:
        """Have every gateway and worker tell what was used up to now."""
        replies, missing = await asyncio.gather(
            self._holders.ask(AskUsage, timeout_s=_USAGE_S), self._holders.missing()
        )
        behind = [
            Unreached(peer.role, peer.name, "what it counted last is not written yet")
            for peer, told in replies.told.items()
            if isinstance(told, UsageTold) and not told.is_all_kept
        ]
        return _all_of(missing, replies.unreached, behind)

    async def missing(self, *roles: str) -> list[Unreached]:
        """Return who of these roles is not linked, or silent."""
        return await self._holders.missing(*roles)

    async def applied(self, *roles: str) -> list[Unreached]:
        """Return who of these roles does not apply the newest snapshot within `_APPLY_S`."""
        behind = await self._holders.behind(*roles, patience_s=_APPLY_S)
        return _all_of(await self._holders.missing(*roles), behind)


def _all_of(*parts: list[Unreached]) -> list[Unreached]:
    """Return each process once, with the first that is said of it."""
    found = {(each.role, each.name): each for part in reversed(parts) for each in reversed(part)}
    return [found[key] for key in sorted(found)]
