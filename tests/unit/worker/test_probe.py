"""Requests of a probe that are given up: each one's abort goes on, and is forgotten once it is done."""

import asyncio
import gc
from typing import cast

from hotset.core.messages import Generate
from hotset.engines.event_stream import EventStream
from hotset.engines.port import Engine
from hotset.worker.probe import Probe
from tests.support.silent_stream import SilentStream


class SlowToAbort(SilentStream):
    """Ends when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False

    async def abort(self) -> None:
        await asyncio.sleep(0)  # held by the task that runs this alone
        gc.collect()
        await asyncio.sleep(0)
        self.is_over = True


class Streams:
    """An engine that says nothing."""

    def __init__(self) -> None:
        self.streams: list[SlowToAbort] = []

    def generate(self, request: Generate) -> EventStream:
        assert request.engine_name is None
        self.streams.append(SlowToAbort())
        return cast("EventStream", self.streams[-1])


def test_every_request_that_was_given_up_is_aborted_to_the_end() -> None:
    async def story() -> None:
        engine = Streams()
        probe = Probe(cast("Engine", engine))
        asking = [asyncio.create_task(probe.ask()) for _ in range(3)]
        await asyncio.sleep(0)
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert len(probe._aborting) == 3
        while probe._aborting:
            await asyncio.sleep(0)
        assert [stream.is_over for stream in engine.streams] == [True, True, True]

    asyncio.run(story())
