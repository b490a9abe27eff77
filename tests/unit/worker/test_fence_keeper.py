"""A fence is kept however long the disk takes it not, and nobody waits for that."""

import asyncio
import errno
from dataclasses import dataclass, field

import pytest

from hotset.worker.fence_keeper import FenceKeeper


@dataclass
class Disk:
    """Refuses so many writes first."""

    num_refusals: int = 0
    kept: list[int] = field(default_factory=list[int])

    def read(self) -> int:
        return self.kept[-1] if self.kept else 0

    def keep(self, fence: int) -> None:
        if self.num_refusals:
            self.num_refusals -= 1
            raise OSError(errno.ENOSPC, "no space left")
        self.kept.append(fence)


async def until_kept(disk: Disk, fence: int) -> None:
    async with asyncio.timeout(60):
        while disk.read() != fence:
            await asyncio.sleep(0)


def test_a_full_disk_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        disk = Disk(num_refusals=3)
        keeper = FenceKeeper(disk, retry_s=0.0)
        assert await keeper.read() == 0
        keeper.offer(7)
        assert disk.kept == []
        await until_kept(disk, 7)
        await keeper.settle()
        told = [record.levelname for record in caplog.records if record.name.startswith("hotset")]
        assert told == ["ERROR", "WARNING"]

    asyncio.run(story())


def test_the_newest_is_kept_and_the_same_one_is_not_written_again() -> None:
    async def story() -> None:
        disk = Disk(kept=[3])
        keeper = FenceKeeper(disk)
        assert await keeper.read() == 3
        keeper.offer(3)
        for fence in (4, 5, 6):
            keeper.offer(fence)
        await keeper.settle()
        assert disk.kept == [3, 6]
        keeper.offer(6)
        await keeper.settle()
        assert disk.kept == [3, 6]

    asyncio.run(story())


def test_an_end_does_not_wait_for_a_disk_that_stays_full() -> None:
    async def story() -> None:
        disk = Disk(num_refusals=1 << 30)
        keeper = FenceKeeper(disk, retry_s=0.01)
        keeper.offer(7)
        async with asyncio.timeout(60):
            await keeper.settle()
        assert disk.kept == []

    asyncio.run(story())
