"""What an agent may say of a request, and what becomes of one that says something else."""

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Finished
from hotset.links.remote_ticket import RemoteTicket
from hotset.links.worker_messages import WINDOW, Accepted, Batch, Taken

REQUEST = RequestId("r1")
ACCEPTED = Accepted(7, "hot", 0.0)
PIECE: list[EngineEvent] = [Delta(REQUEST, 0, "a", 1)]
LAST: list[EngineEvent] = [Finished(REQUEST, 1, 1)]


@dataclass
class Carrier:
    sent: list[Taken] = field(default_factory=list[Taken])

    def send(self, message: Taken) -> None:
        self.sent.append(message)

    def send_abort(self, stream: int) -> None: ...


def test_a_batch_of_a_request_that_was_not_accepted_is_refused() -> None:
    async def story() -> None:
        ticket = RemoteTicket(Carrier(), "w1", 7, REQUEST)
        with pytest.raises(msgspec.ValidationError, match="not accepted"):
            ticket.hear(Batch(7, LAST))
        assert not ticket.answer.done()

    asyncio.run(story())


def test_no_more_batches_are_kept_than_the_window_allows() -> None:
    async def story() -> None:
        carrier = Carrier()
        ticket = RemoteTicket(carrier, "w1", 7, REQUEST)
        ticket.hear(ACCEPTED)
        for _ in range(WINDOW):
            ticket.hear(Batch(7, PIECE))
        with pytest.raises(msgspec.ValidationError, match="not read"):
            ticket.hear(Batch(7, PIECE))
        assert len(await ticket.events()) == WINDOW
        assert carrier.sent == [Taken(7, WINDOW)]
        for _ in range(WINDOW - 1):
            assert not ticket.hear(Batch(7, PIECE))
        assert ticket.hear(Batch(7, LAST))

    asyncio.run(story())


def test_what_was_read_and_not_yet_told_still_counts_as_under_way() -> None:
    async def story() -> None:
        ticket = RemoteTicket(Carrier(), "w1", 7, REQUEST)
        ticket.hear(ACCEPTED)
        ticket.hear(Batch(7, PIECE))
        assert await ticket.events() == PIECE
        for _ in range(WINDOW - 1):
            ticket.hear(Batch(7, PIECE))
        with pytest.raises(msgspec.ValidationError, match="not read"):
            ticket.hear(Batch(7, PIECE))

    asyncio.run(story())
