"""A request's stream that is aborted: whoever asks for it waits until the engine confirmed it."""

import asyncio

from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import RequestId
from hotset.core.messages import Finished
from hotset.engines.event_stream import EventStream

REQUEST = RequestId("r")


class Engine:
    """Confirms an abort when it is told to."""

    def __init__(self) -> None:
        self.num_aborts = 0
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def forget(self, request_id: RequestId) -> None:
        assert request_id == REQUEST

    async def abort(self, request_id: RequestId) -> None:
        assert request_id == REQUEST
        self.num_aborts += 1
        await self.confirmed


async def turns_pass() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_second_abort_returns_no_sooner_than_the_engine_confirms_the_first() -> None:
    async def story() -> None:
        engine = Engine()
        stream = EventStream(engine, REQUEST)
        first, second = (asyncio.create_task(stream.abort()) for _ in range(2))
        await turns_pass()
        assert not first.done()
        assert not second.done()
        engine.confirmed.set_result(None)
        await asyncio.gather(first, second)
        await stream.abort()
        assert engine.num_aborts == 1

    asyncio.run(story())


def test_a_second_abort_waits_for_the_engine_though_the_first_was_given_up() -> None:
    async def story() -> None:
        engine = Engine()
        stream = EventStream(engine, REQUEST)
        first = asyncio.create_task(stream.abort())
        await turns_pass()
        first.cancel()
        second = asyncio.create_task(stream.abort())
        await turns_pass()
        assert first.cancelled()
        assert not second.done()
        engine.confirmed.set_exception(EngineUnavailableError())  # a dead engine runs nothing
        await second
        assert engine.num_aborts == 1

    asyncio.run(story())


def test_after_the_end_there_is_nothing_to_abort() -> None:
    async def story() -> None:
        engine = Engine()
        stream = EventStream(engine, REQUEST)
        stream.push(Finished(REQUEST, 1, 1))
        await stream.abort()
        assert engine.num_aborts == 0

    asyncio.run(story())
