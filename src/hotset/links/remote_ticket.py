"""One request at an agent in another process, as its gateway sees it; `remote_agent` keeps the link that carries it.

What the agent may say is checked here, so that no agent makes a gateway wait for ever or keep without bound: an agent
that breaks the protocol loses its link.
"""

import asyncio
from collections import deque
from typing import Protocol

import msgspec

from hotset.core.errors import EngineFailedError, EngineUnavailableError, HotsetError
from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent, Failed, Finished
from hotset.core.ports import Lane, OnWaiting, Waiting
from hotset.links.refusals import error_of
from hotset.links.worker_messages import WINDOW, Aborted, Accepted, Batch, Refused, Taken, Waits

_LAST = (Finished, Failed)


class Carrier(Protocol):
    """What brings a ticket's words to the agent."""

    def send(self, message: Taken) -> None:
        """Send where there is a link; without one there is nobody to tell."""
        ...

    def send_abort(self, stream: int) -> None:
        """Ask for an abort; where the link is gone already, it is done."""
        ...


class RemoteTicket:
    """One request at the agent: implements `core.ports.Ticket`. Filled by the link, read by one reader."""

    def __init__(
        self,
        carrier: Carrier,
        worker: str,
        stream: int,
        request: RequestId,
        on_waiting: OnWaiting | None = None,
    ) -> None:
        self._carrier = carrier
        self._on_waiting = on_waiting
        self._stream = stream
        self._request = request
        self._ready: deque[list[EngineEvent]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._has_ended = False
        self._num_taken = 0
        #: Batches that came and that the agent does not know to be read.
        self._num_under_way = 0
        self.lane: Lane = "hot"
        self.load_seconds = 0.0
        self.worker: str = worker
        #: Done once the agent accepted or refused.
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Done once an abort is confirmed.
        self.aborted: asyncio.Future[None] | None = None

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; an empty list after the last one."""
        if not self._ready:
            if self._has_ended:
                return []
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        batches, self._ready = self._ready, deque()
        self._num_taken += len(batches)
        if self._num_taken >= WINDOW // 2 and not self._has_ended:
            self._carrier.send(Taken(self._stream, self._num_taken))
            self._num_under_way -= self._num_taken
            self._num_taken = 0
        return [event for batch in batches for event in batch]

    async def abort(self) -> None:
        """End the request in the engine; returns once the agent confirmed it, or is gone. Harmless after the end."""
        if self._has_ended:
            return
        self._end()
        self.aborted = asyncio.get_running_loop().create_future()
        self._carrier.send_abort(self._stream)
        await self.aborted

    # --- what the link brings --------------------------------------------------------------------------

    def hear(self, message: Waits | Accepted | Refused | Batch | Aborted) -> bool:
        """Take what the agent says of the request; return whether it will say no more.

        Raises:
            msgspec.ValidationError: it breaks the protocol; whatever the link carries can't be relied on.
        """
        match message:
            case Batch(_, events):
                return self.aborted is None and self._receive(events)
            case Waits(_, lane, expected_ms):
                if self._on_waiting is not None and not self.answer.done():
                    self._on_waiting(Waiting(lane, None if expected_ms is None else expected_ms / 1000))
                return False
            case Accepted(_, lane, load_seconds):
                self.lane, self.load_seconds = lane, load_seconds
                if not self.answer.done():
                    self.answer.set_result(None)
                return False
            case Refused():
                self._refuse(error_of(message))
            case Aborted():
                self.lose("aborted")
        return True

    def lose(self, reason: str) -> None:
        """The agent is gone, or confirmed an abort: end as it stands."""
        if self.aborted is not None:
            if not self.aborted.done():
                self.aborted.set_result(None)
        elif not self.answer.done():
            self._refuse(EngineUnavailableError(f"The worker was lost: {reason}."))
        elif not self._has_ended:
            self._push([Failed(self._request, EngineFailedError.code, f"the worker was lost: {reason}")])

    def _receive(self, batch: list[EngineEvent]) -> bool:
        """Add events that the agent may send now; return whether the last one is among them."""
        if not self.answer.done():
            raise msgspec.ValidationError(f"a batch of {self._request}, which was not accepted")
        if self._num_under_way >= WINDOW:
            raise msgspec.ValidationError(f"more than {WINDOW} batches of {self._request} that were not read")
        self._num_under_way += 1
        return self._push(batch)

    def _push(self, batch: list[EngineEvent]) -> bool:
        """Add events; return whether the last one is among them."""
        if batch:
            self._ready.append(batch)
        if not batch or isinstance(batch[-1], _LAST):
            self._end()
        elif self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        return self._has_ended

    def _refuse(self, error: HotsetError) -> None:
        self._has_ended = True
        if not self.answer.done():
            self.answer.set_exception(error)

    def _end(self) -> None:
        self._has_ended = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
