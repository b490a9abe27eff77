"""Keeps a worker's fence from one start to the next, without holding anything up: a full disk is waited for.

Until it is kept, a worker that starts again shows its former fence, and has to wait until control holds it for lost.
"""

import asyncio
import logging
from typing import Protocol

_log = logging.getLogger(__name__)


class KeptFence(Protocol):
    """Where the last fence is kept."""

    def read(self) -> int:
        """Return it; 0 where there is none."""
        ...

    def keep(self, fence: int) -> None:
        """Keep it, durably.

        Raises:
            OSError: the disk does not take it.
        """
        ...


class FenceKeeper:
    """Writes the newest fence, again and again until it is kept."""

    def __init__(self, fences: KeptFence, *, retry_s: float = 5.0) -> None:
        self._fences = fences
        self._retry_s = retry_s
        #: What is kept, and what is to be.
        self._kept = 0
        self._newest = 0
        self._writing: asyncio.Task[None] | None = None

    async def read(self) -> int:
        """Return the fence that was kept; 0 where there is none."""
        self._kept = self._newest = await asyncio.to_thread(self._fences.read)
        return self._kept

    def offer(self, fence: int) -> None:
        """Keep this one, soon."""
        self._newest = fence
        if self._newest != self._kept and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def settle(self) -> None:
        """Return once the newest is kept, or can't be now: then nothing more is tried."""
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=self._retry_s)
            self._writing.cancel()

    async def _write(self) -> None:
        has_failed = False
        while (fence := self._newest) != self._kept:
            try:
                await asyncio.to_thread(self._fences.keep, fence)
            except OSError as error:
                if not has_failed:
                    _log.error("fence %d could not be kept; it is tried again: %s", fence, error)
                has_failed = True
                await asyncio.sleep(self._retry_s)
            else:
                self._kept = fence
        if has_failed:
            _log.warning("fence %d is kept now", self._kept)
