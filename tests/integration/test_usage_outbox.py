"""What a gateway or worker counted survives its restarts, and reaches control in batches that each count once."""

import asyncio
from pathlib import Path
from typing import Any

from hotset.core.clock import SystemClock
from hotset.core.ids import TenantId
from hotset.core.usage import UsageSums
from hotset.links.holder_messages import UsageNow
from hotset.links.usage_outbox import UsageOutbox
from hotset.storage.kept_usage import KeptUsage

ACME = TenantId("acme")


class ControlEnd:
    """Control's end of the link: adds up each batch once, and says so."""

    def __init__(self) -> None:
        self.is_linked = True
        self.says_so = True
        self.counted: dict[tuple[str, int], int] = {}
        self.num_told = 0
        self.outbox: UsageOutbox

    def hear(self, message: Any) -> None:
        assert isinstance(message, UsageNow)
        batch = message.batch
        self.num_told += 1
        self.counted.setdefault((batch.stream, batch.number), sum(usage.requests for usage in batch.usages))
        if self.says_so:
            asyncio.get_running_loop().call_soon(self.outbox.kept, batch.stream, batch.number)

    @property
    def total(self) -> int:
        return sum(self.counted.values())


async def started(path: Path, control: ControlEnd, stream: str) -> tuple[UsageSums, UsageOutbox]:
    """Start a process that counts."""
    sums = UsageSums()
    control.outbox = outbox = UsageOutbox(sums, KeptUsage(path), SystemClock(), stream=stream)
    await outbox.begin(control.hear, lambda: control.is_linked)
    return sums, outbox


def test_every_request_counts_once_through_lost_answers_and_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        path, control = tmp_path / "usage", ControlEnd()
        sums, outbox = await started(path, control, "first")
        sums.of(ACME, "acme/a").requests += 1
        assert await outbox.settle()
        assert (control.total, control.num_told) == (1, 1)
        assert await outbox.settle(), "there is nothing to say"
        assert control.num_told == 1
        # Control hears and its answer is lost; then it is away for longer than this process lives.
        control.says_so = False
        sums.of(ACME, "acme/a").requests += 10
        await outbox.tell()
        control.is_linked = False
        sums.of(ACME, "acme/a").requests += 100
        assert not await outbox.settle()
        # Killed here. The next start tells what is left, under the numbers that it had.
        sums, outbox = await started(path, control, "second")
        control.is_linked = control.says_so = True
        sums.of(ACME, "acme/a").requests += 1000
        assert await outbox.settle()
        assert control.total == 1111
        assert KeptUsage(path).read() != [], "what control counts leaves the disk with the next look"
        await outbox.tell()
        assert KeptUsage(path).read() == []

    asyncio.run(story())


def test_a_new_link_is_told_again_what_was_not_answered(tmp_path: Path) -> None:
    async def story() -> None:
        control = ControlEnd()
        sums, outbox = await started(tmp_path / "usage", control, "s")
        control.says_so = False
        sums.of(ACME, "acme/a").requests += 2
        await outbox.tell()
        await outbox.tell()
        assert control.num_told == 1, "on one link it is told once"
        control.says_so = True
        outbox.linked()
        assert await outbox.settle()
        assert (control.total, control.num_told) == (2, 2)

    asyncio.run(story())


def test_a_damaged_file_is_no_reason_not_to_start(tmp_path: Path) -> None:
    path = tmp_path / "usage"
    path.write_bytes(b"\xc1 not a list of batches")
    assert KeptUsage(path).read() == []


def test_a_disk_that_takes_nothing_does_not_keep_control_from_hearing(tmp_path: Path) -> None:
    async def story() -> None:
        control = ControlEnd()
        sums, outbox = await started(tmp_path / "no-such-folder" / "usage", control, "s")
        sums.of(ACME, "acme/a").requests += 3
        assert await outbox.settle()
        assert control.total == 3

    asyncio.run(story())
