"""The process of an engine as its owner ends it."""

import asyncio
from typing import Any, cast

import pytest

from hotset.engines.child_process import ChildProcess


class Dying:
    """A process that ends when it is told to by the test."""

    stdin = None

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def wait(self) -> int:
        await self.ended.wait()
        return 0


@pytest.mark.parametrize("turns_later", range(6))
def test_a_cancel_that_comes_as_the_process_ends_is_not_swallowed(turns_later: int) -> None:
    async def story() -> None:
        child, process = ChildProcess(), Dying()
        child._process = cast("Any", process)
        ending = asyncio.create_task(child.end())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        process.ended.set()
        for _ in range(turns_later):
            await asyncio.sleep(0)
        is_asked = ending.cancel()
        await asyncio.wait({ending})
        assert ending.cancelled() == is_asked

    asyncio.run(story())
