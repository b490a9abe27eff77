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

    def add(self, request: RequestId, ticket: LeaseTicket) -> None:
        """A request began to run, and may be done with it already."""
        if not ticket.has_ended:
            self._tickets[request] = ticket

    def ended(self, request: RequestId) -> None:
        """A request's lease ended; of one that is not here it is ignored."""
        self._tickets.pop(request, None)

    def cut(self, request: RequestId, error: HotsetError) -> None:
        """End a request in the engine, with this error for whoever reads it."""
        ticket = self._tickets.get(request)
        if ticket is not None:
            cutting = asyncio.create_task(ticket.cut(error))
            self._cutting.add(cutting)
            cutting.add_done_callback(self._cutting.discard)
