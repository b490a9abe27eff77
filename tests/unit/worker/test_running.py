"""Requests that run, and are cut: also one whose ticket is not there yet when its slot goes back."""

import asyncio

from hotset.core.errors import SlotReclaimedError
from hotset.core.ids import RequestId
from hotset.worker.lease_ticket import LeaseTicket
from hotset.worker.running import Running
from tests.support.silent_stream import Account, SilentStream

REQUEST = RequestId("r")


def test_one_that_is_cut_before_its_ticket_came_is_cut_as_it_comes() -> None:
    async def scenario() -> None:
        running, stream, account = Running(), SilentStream(), Account()
        running.cut(REQUEST, SlotReclaimedError())
        running.add(REQUEST, LeaseTicket(stream, REQUEST, account, lane="hot", load_seconds=0.0))
        await asyncio.sleep(0)
        assert (stream.num_aborts, account.num_released) == (1, 1)

    asyncio.run(scenario())


def test_one_that_ended_before_its_ticket_came_leaves_nothing_for_another_of_its_id() -> None:
    async def scenario() -> None:
        running, stream, account = Running(), SilentStream(), Account()
        running.cut(REQUEST, SlotReclaimedError())
        running.ended(REQUEST)
        running.add(REQUEST, LeaseTicket(stream, REQUEST, account, lane="hot", load_seconds=0.0))
        await asyncio.sleep(0)
        assert (stream.num_aborts, account.num_released) == (0, 0)

    asyncio.run(scenario())
