"""Keeps what tenants use: adds what gateways and workers counted to the database, once each.

Gateways count requests and tokens, workers loads and slots. Those of this process hand over their sums now and then,
and what came since is lost with it; those in processes of their own keep batches until they hear that these count.
"""

import asyncio
import logging

from hotset.control.actors import LOCAL_ADMIN, Actor
from hotset.control.commits import Change, Commits
from hotset.core.ids import TenantId
from hotset.core.usage import Usage, UsageBatch, UsageSums

_log = logging.getLogger(__name__)

#: Between two writings.
PERIOD_S = 10.0
#: How long usage is kept.
KEPT_S = 400 * 86_400.0


class UsageCommands:
    """Usage: gathered by `keep` and `count`, told by `sums`."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._unwritten = UsageSums()
        self._turn = asyncio.Lock()
        #: Where gateways and agents of this process count; whoever runs some adds their sums.
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
        """Add what was used here since the last time to the database; what can't be written is kept for the next."""
        # A caller that goes away changes nothing: what its command still commits must not be kept, and count twice.
        await asyncio.shield(asyncio.ensure_future(self._write()))

    async def count(self, role: str, name: str, batch: UsageBatch) -> bool:
        """Add a batch of a gateway or worker, unless it is there already; return whether it was new."""
        return await self._commits.run(
            LOCAL_ADMIN, lambda change: change.catalogue.usage.add_once(role, name, batch, change.now_s)
        )

    async def sums(self, _actor: Actor, since_s: float, tenant: TenantId | None) -> list[Usage]:
        """Return the sums by tenant and adapter since a moment in wall-clock seconds, whole hours, up to now."""
        await self.write()
        return await self._commits.read(lambda catalogue: catalogue.usage.sums(since_s, tenant))

    async def _write(self) -> None:
        def act(change: Change) -> None:
            for usage in taken:
                change.catalogue.usage.add(usage, change.now_s)
            change.catalogue.usage.forget_before(change.now_s - KEPT_S)

        async with self._turn:
            for book in self.books:
                self._unwritten.put_back(book.take())
            taken = self._unwritten.take()
            try:
                await self._commits.run(LOCAL_ADMIN, act)
            except BaseException:
                self._unwritten.put_back(taken)
                raise
