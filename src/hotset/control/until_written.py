"""Writes on a holder's behalf that outlast a database which can't be written: its disk is full, or somebody locks it.

The holder's link is not to end for that: over it come snapshots and what workers say of themselves, and both need no
writing. So the write is tried again, for as long as the link stands.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hotset.links.link import Link
from hotset.storage.database import DatabaseFailedError

T = TypeVar("T")
_log = logging.getLogger(__name__)


async def until_written(write: Callable[[], Awaitable[T]], link: Link[Any], *, pause_s: float) -> T | None:
    """Return what a write returns, once it succeeds; None where the link ended before.

    Args:
        write: One transaction; it is begun anew for each try.
        link: Of the holder that it is for.
        pause_s: Between two tries, in seconds.

    Raises:
        HotsetError: what the write itself refuses.
    """
    has_failed = False
    while link.is_open:
        try:
            written = await write()
        except DatabaseFailedError as error:
            if not has_failed:
                _log.error("the database can't be written: links stay, and what a holder said waits", exc_info=error)
            has_failed = True
        else:
            if has_failed:
                _log.warning("the database can be written again")
            return written
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await link.wait_ended()
    return None
