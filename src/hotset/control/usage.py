"""Keeps what tenants use: gathers counters from gateways and workers, and adds them to the database now and then.

Requests and tokens are counted by gateways, loads and slots as workers report them. What was not written yet is lost
with the process: at most what came in one period, and a killed worker's last loads.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from hotset.control.actors import LOCAL_ADMIN, Actor
from hotset.control.commits import Change, Commits
from hotset.core.clock import Clock
from hotset.core.ids import EngineName, TenantId
from hotset.core.ports import ResidencyViewer
from hotset.core.residency_report import WorkerReport
from hotset.core.usage import Usage, UsageSums

_log = logging.getLogger(__name__)

#: Between two writings.
PERIOD_S = 10.0
#: How long usage is kept.
KEPT_S = 400 * 86_400.0
#: A look that comes later than this after the last one counts no more: the machine slept.
_LOOK_S_MAX = 60.0


class SlotMeter:
    """Turns what workers report of their slots, look after look, into slot seconds and loads."""

    def __init__(self) -> None:
        self._last_look_s: float | None = None
        #: By worker, the number of the newest event that was counted.
        self._counted: dict[tuple[str, int], int] = {}

    def look(
        self, workers: Sequence[WorkerReport], adapter_of: Callable[[EngineName], str], now_s: float
    ) -> list[Usage]:
        """Return what was used since the last look.

        Args:
            workers: Each worker now, always in the same order.
            adapter_of: Returns a version's ``owner/name``.
            now_s: Monotonic seconds.
        """
        since_s = 0.0 if self._last_look_s is None else min(_LOOK_S_MAX, now_s - self._last_look_s)
        self._last_look_s = now_s
        sums = UsageSums()
        for place, worker in enumerate(workers):
            self._count_events((worker.base, place), worker, adapter_of, sums)
            for slot in worker.residency.slots if worker.residency is not None else ():
                charged = slot.successor or slot.version
                if slot.account is not None and charged is not None:
                    sums.of(slot.account, adapter_of(charged)).slot_seconds += since_s
        return sums.take()

    def _count_events(
        self, key: tuple[str, int], worker: WorkerReport, adapter_of: Callable[[EngineName], str], sums: UsageSums
    ) -> None:
        counted = self._counted.get(key, 0)
        newest = max((event.number for event in worker.events), default=0)
        if newest < counted:
            counted = 0  # its engine started anew
        for event in worker.events:
            if event.number > counted and event.kind == "loaded" and event.tenant is not None:
                usage = sums.of(event.tenant, adapter_of(event.version))
                usage.loads += 1
                usage.load_seconds += event.seconds
        self._counted[key] = newest


class UsageCommands:
    """Usage: gathered by `keep`, told by `sums`."""

    def __init__(self, commits: Commits, viewers: Sequence[ResidencyViewer], clock: Clock) -> None:
        self._commits = commits
        self._viewers = viewers
        self._clock = clock
        self._meter = SlotMeter()
        self._adapters: Mapping[EngineName, str] = {}
        self._unwritten = UsageSums()
        #: Where gateways count; whoever runs one here adds its sums.
        self.books: list[UsageSums] = []

    async def keep(self) -> None:
        """Write usage every `PERIOD_S`, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self.write()
            except Exception:  # noqa: BLE001 - this task's outermost loop: a full disk must not end the counting
                _log.exception("usage is not written")

    async def write(self) -> None:
        """Add what was used since the last time to the database; what can't be written is kept for the next time."""
        for book in self.books:
            self._unwritten.put_back(book.take())
        workers = [worker for viewer in self._viewers for worker in viewer.view_residency()]
        self._learn_names()
        used = self._meter.look(workers, lambda name: self._adapters.get(name, ""), self._clock.monotonic_s())
        self._unwritten.put_back(used)
        taken = self._unwritten.take()
        if not taken:
            return

        def act(change: Change) -> None:
            for usage in taken:
                change.catalogue.usage.add(usage, change.now_s)
            change.catalogue.usage.forget_before(change.now_s - KEPT_S)

        try:
            await self._commits.run(LOCAL_ADMIN, act)
        except BaseException:
            self._unwritten.put_back(taken)
            raise

    async def sums(self, _actor: Actor, since_s: float, tenant: TenantId | None) -> list[Usage]:
        """Return the sums by tenant and adapter since a moment in wall-clock seconds, whole hours, up to now."""
        await self.write()
        return await self._commits.read(lambda catalogue: catalogue.usage.sums(since_s, tenant))

    def _learn_names(self) -> None:
        """Know the adapters of the snapshot's versions, and those of versions that just left it."""
        serving = {name: str(record.ref.adapter) for name, record in self._commits.snapshot.versions.items()}
        if serving.keys() != self._adapters.keys():
            self._adapters = {**(self._adapters if len(self._adapters) < 2 * len(serving) + 1000 else {}), **serving}
