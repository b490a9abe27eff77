"""A write for a holder is tried until it succeeds or the holder's link ends."""

import asyncio
from dataclasses import dataclass, field

import pytest

from hotset.control.until_written import until_written
from hotset.core.errors import ConflictError
from hotset.storage.database import DatabaseFailedError


@dataclass
class EndlessLink:
    """A link that stands until it is told to end."""

    is_open: bool = True
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_ended(self) -> str:
        await self.ended.wait()
        return "the test ends it"

    def end(self) -> None:
        self.is_open = False
        self.ended.set()


@dataclass
class Write:
    """Fails as often as it is told to."""

    num_failures: int
    num_tries: int = 0

    async def __call__(self) -> int:
        self.num_tries += 1
        if self.num_tries <= self.num_failures:
            raise DatabaseFailedError("disk full")
        return self.num_tries


def test_a_write_is_tried_until_it_succeeds() -> None:
    write = Write(num_failures=2)
    assert asyncio.run(until_written(write, EndlessLink(), pause_s=0.0)) == 3  # type: ignore[arg-type]
    assert write.num_tries == 3


def test_nothing_is_tried_for_a_link_that_has_ended_and_its_end_ends_the_pause() -> None:
    async def story() -> None:
        link, write = EndlessLink(), Write(num_failures=10**6)
        async with asyncio.timeout(60):
            trying = asyncio.create_task(until_written(write, link, pause_s=3600.0))  # type: ignore[arg-type]
            while not write.num_tries:
                await asyncio.sleep(0)
            link.end()
            assert await trying is None
            assert await until_written(write, link, pause_s=3600.0) is None  # type: ignore[arg-type]
        assert write.num_tries == 1

    asyncio.run(story())


def test_what_a_write_itself_refuses_is_its_callers() -> None:
    async def refuse() -> None:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        asyncio.run(until_written(refuse, EndlessLink(), pause_s=0.0))  # type: ignore[arg-type]
