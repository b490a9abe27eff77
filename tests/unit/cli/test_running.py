"""What every process that serves does alike."""

import asyncio
import gc

from hotset.cli.running import serving


def test_what_start_up_made_is_left_out_of_the_collectors_looks_while_it_serves() -> None:
    async def scenario() -> None:
        async with serving([]):
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0

    asyncio.run(scenario())
