"""The requests that run in one engine, and those of them that are being cut."""

import asyncio

from hotset.core.errors import HotsetError
from hotset.core.ids import RequestId
from hotset.worker.lease_ticket import LeaseTicket


class Running:
    """By request."""

    def __init__(self) -> None:
        self._tickets: dict[RequestId, LeaseTicket] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        #: What is to be cut as soon as it is here: it was dispatched a moment ago.
        self._doomed: dict[RequestId, HotsetError] = {}

    def add(self, request: RequestId, ticket: LeaseTicket) -> None:
        """A request began to run, and may be done with it already."""
        error = self._doomed.pop(request, None)
        if ticket.has_ended:
            return
        self._tickets[request] = ticket
        if error is not None:
            self.cut(request, error)

    def ended(self, request: RequestId) -> None:
        """A request's lease ended; of one that is not here it is ignored."""
        self._tickets.pop(request, None)
        self._doomed.pop(request, None)

    def cut(self, request: RequestId, error: HotsetError) -> None:
        """End a request that was dispatched, with this error for whoever reads it."""
        ticket = self._tickets.get(request)
        if ticket is None:
            self._doomed[request] = error
            return
        cutting = asyncio.create_task(ticket.cut(error))
        self._cutting.add(cutting)
        cutting.add_done_callback(self._cutting.discard)
