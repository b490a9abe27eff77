"""A ticket that is cut: its reader is woken and told why, once, and the engine is asked to end the request."""

import asyncio
import gc
import weakref

import pytest

from hotset.core.errors import SlotReclaimedError
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, Failed, Finished, Started
from hotset.engines.event_stream import EventStream
from hotset.worker.lease_ticket import LeaseTicket
from tests.support.silent_stream import Account, SilentStream

REQUEST = RequestId("r")
CUT = Failed(REQUEST, "slot_reclaimed", SlotReclaimedError().message)


def ticket_of(stream: SilentStream, account: Account) -> LeaseTicket:
    return LeaseTicket(stream, REQUEST, account, lane="hot", load_seconds=0.0)


def test_a_reader_that_waits_is_told_and_then_there_is_nothing_more() -> None:
    async def scenario() -> None:
        stream, account = SilentStream(), Account()
        ticket = ticket_of(stream, account)
        reading = asyncio.create_task(ticket.events())
        await asyncio.sleep(0)
        await ticket.cut(SlotReclaimedError())
        assert await reading == [CUT]
        assert await ticket.events() == []
        await ticket.cut(SlotReclaimedError())
        assert (stream.num_aborts, account.num_released) == (1, 1)

    asyncio.run(scenario())


def test_a_reader_that_comes_later_is_told_as_well() -> None:
    async def scenario() -> None:
        ticket = ticket_of(SilentStream(), Account())
        await ticket.cut(SlotReclaimedError())
        assert await ticket.events() == [CUT]

    asyncio.run(scenario())


def test_a_reader_whose_client_leaves_in_the_same_moment_leaves() -> None:
    async def scenario() -> None:
        ticket = ticket_of(SilentStream(), Account())
        reading = asyncio.create_task(ticket.events())
        await asyncio.sleep(0)
        reading.cancel()
        await ticket.cut(SlotReclaimedError())
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(scenario())


def test_what_has_ended_is_not_cut() -> None:
    async def scenario() -> None:
        stream, account = SilentStream(), Account()
        ticket = ticket_of(stream, account)
        last = Finished(REQUEST, 1, 1)
        stream.say(last)
        await ticket.cut(SlotReclaimedError())
        assert await ticket.events() == [last]
        assert (stream.num_aborts, account.num_released) == (0, 1)

    asyncio.run(scenario())


def test_what_comes_at_once_is_charged_at_once() -> None:
    def delta(num_tokens: int) -> Delta:
        return Delta(REQUEST, 0, "x" * num_tokens, num_tokens)

    stream, account = EventStream(NoEngine(), REQUEST), Account()
    stream.push(Started(REQUEST, 7))
    LeaseTicket(stream, REQUEST, account, lane="hot", load_seconds=0.0)
    stream.push(delta(0))
    stream.push(delta(2), delta(0), delta(3))
    stream.push(delta(1), Finished(REQUEST, 7, 6))
    assert account.heard == [(7, 0), (None, 5), "first token", (None, 1)]
    assert account.num_released == 1


class NoEngine:
    """Owns a stream, and runs nothing."""

    def forget(self, request_id: RequestId) -> None:
        pass

    async def abort(self, request_id: RequestId) -> None:
        pass


def test_a_ticket_that_has_ended_is_gone_with_its_last_reference_whoever_was_first_the_ticket_or_the_end() -> None:
    gc.disable()
    try:
        for is_late in (False, True):
            stream, account = EventStream(NoEngine(), REQUEST), Account()
            if is_late:
                stream.push(CUT)
            ticket = LeaseTicket(stream, REQUEST, account, lane="hot", load_seconds=0.0)
            if not is_late:
                stream.push(CUT)
            assert account.num_released == 1
            seen = weakref.ref(ticket)
            del ticket, stream
            assert seen() is None
    finally:
        gc.enable()
