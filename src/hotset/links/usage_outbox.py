"""What tenants used at one process and control did not yet count: in batches, told until control says that they count.

A batch that was told once never changes again, for control may have it: told anew, it is known by its number. What
comes meanwhile goes into the next one, one batch an hour at most.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hotset.core.clock import Clock
from hotset.core.usage import HOUR_S, Usage, UsageBatch, UsageSums
from hotset.links.holder_messages import UsageNow

_log = logging.getLogger(__name__)
_PERIOD_S = 10.0
#: How long control may take to count what it was asked to count at once.
_SETTLE_S = 4.0


class KeptBatches(Protocol):
    """Where batches are kept from one start to the next. Calls block."""

    def keep(self, batches: Sequence[UsageBatch]) -> None:
        """Put these in the place of the last ones, durably."""
        ...

    def read(self) -> list[UsageBatch]:
        """Return what was kept."""
        ...


class Batches:
    """The batches that control does not have, oldest first."""

    def __init__(self, stream: str, left: Sequence[UsageBatch] = ()) -> None:
        """Begin a stream.

        Args:
            stream: A name that no other start of any process has.
            left: What earlier starts did not get rid of.
        """
        self._stream = stream
        self._last_number = 0
        self.waiting = list(left)
        #: Of them, from the front: how many never change, and how many were told on the present link.
        self._num_fixed = len(self.waiting)
        self._num_told = 0

    def add(self, usages: Sequence[Usage], hour_s: int) -> None:
        """Take in what was used in an hour."""
        if len(self.waiting) > self._num_fixed and self.waiting[-1].hour_s == hour_s:
            sums = UsageSums()
            sums.put_back(self.waiting[-1].usages)
            sums.put_back(usages)
            self.waiting[-1] = UsageBatch(self._stream, self._last_number, hour_s, sums.take())
            return
        self._last_number += 1
        self.waiting.append(UsageBatch(self._stream, self._last_number, hour_s, list(usages)))

    def to_tell(self) -> list[UsageBatch]:
        """Return what was not told on this link yet; from now on it does not change."""
        batches = self.waiting[self._num_told :]
        self._num_told = self._num_fixed = len(self.waiting)
        return batches

    def forget_told(self) -> None:
        """Another link began: all has to be told again."""
        self._num_told = 0

    def kept(self, stream: str, number: int) -> None:
        """Drop what control counts: of this stream, up to this number."""
        num_before = len(self.waiting)
        self.waiting = [each for each in self.waiting if each.stream != stream or each.number > number]
        num_gone = num_before - len(self.waiting)
        self._num_fixed = max(0, self._num_fixed - num_gone)
        self._num_told = max(0, self._num_told - num_gone)


class UsageOutbox:
    """Takes what is counted away, keeps it on disk, tells it to control; `run` does so every few seconds."""

    def __init__(self, sums: UsageSums, kept: KeptBatches, clock: Clock, *, stream: str) -> None:
        """Prepare; `begin` reads what is left of earlier starts.

        Args:
            sums: Where it is counted.
            kept: Keeps it from one start to the next.
            clock: Where time comes from.
            stream: A name that no other start of any process has.
        """
        self._sums = sums
        self._kept = kept
        self._clock = clock
        self._stream = stream
        self._batches = Batches(stream)
        #: What is on the disk.
        self._on_disk: list[UsageBatch] = []
        self._send: Callable[[Any], None] = lambda _: None
        self._is_linked: Callable[[], bool] = lambda: False
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    async def begin(self, send: Callable[[Any], None], is_linked: Callable[[], bool]) -> None:
        """Read what is left, and tell it by `send` once control is there."""
        self._send, self._is_linked = send, is_linked
        left = await asyncio.to_thread(self._kept.read)
        self._batches, self._on_disk = Batches(self._stream, left), left

    async def run(self) -> None:
        """Keep and tell every `_PERIOD_S`, until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self.tell()

    async def tell(self) -> None:
        """Keep what was used since the last time, then tell control what it was not told yet."""
        async with self._turn:
            usages = self._sums.take()
            if usages:
                self._batches.add(usages, int(self._clock.wall_s()) // HOUR_S * HOUR_S)
            await self._keep()
            if self._is_linked():
                for batch in self._batches.to_tell():
                    self._send(UsageNow(batch))

    async def settle(self) -> bool:
        """Tell control all there is; return whether it counts all of it, within some seconds."""
        await self.tell()
        if not self._is_linked():
            return not self._batches.waiting
        try:
            async with asyncio.timeout(_SETTLE_S):
                while self._batches.waiting:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def linked(self) -> None:
        """Control is there, anew: it hears at the next time what it may not have heard."""
        self._batches.forget_told()

    def kept(self, stream: str, number: int) -> None:
        """Control counts this stream up to this number."""
        self._batches.kept(stream, number)
        self._changed.set()

    async def _keep(self) -> None:
        waiting = list(self._batches.waiting)
        if waiting == self._on_disk:
            return
        try:
            await asyncio.to_thread(self._kept.keep, waiting)
        except OSError as error:
            _log.error("what was used is not on disk: %s", error)
            return
        self._on_disk = waiting
