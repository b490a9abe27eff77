"""What is used counts once with control, whoever stops waiting for it to be written."""

import asyncio
import contextlib
from pathlib import Path

from hotset.control.actors import LOCAL_ADMIN
from hotset.core.ids import TenantId
from hotset.core.usage import UsageSums
from tests.support.installation import installation, run


def test_usage_counts_once_where_its_writer_goes_away_meanwhile(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            book = UsageSums()
            inst.control.usage.books.append(book)
            book.of(TenantId("acme"), "acme/support").requests += 1
            writing = asyncio.create_task(inst.control.usage.write())
            await asyncio.sleep(0)
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing
            (used,) = await inst.control.usage.sums(LOCAL_ADMIN, 0.0, None)
            assert used.requests == 1

    run(story())
