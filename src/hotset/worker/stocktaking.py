"""What an engine itself says it holds and runs, asked every second: what its agent believes can be held against it."""

import asyncio
import logging

from hotset.core.clock import Clock
from hotset.core.errors import HotsetError
from hotset.core.messages import Inventory
from hotset.core.residency_report import InventoryReport
from hotset.engines.port import Engine

_log = logging.getLogger(__name__)
#: Once for each heartbeat.
_EVERY_S = 1.0
#: So many questions in a row have no answer before it is told, once: an engine that is being ended has none either.
_TOLD_AT = 5


class Stocktaking:
    """Asks one engine for its inventory, again and again; decides nothing by it."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._inventory: Inventory | None = None
        #: When the engine was asked for it: what it says is no older.
        self._asked_at_s = 0.0

    async def run(self) -> None:
        """Ask until cancelled; one that is slow to answer is not asked again meanwhile."""
        num_unanswered = 0
        while True:
            asked_at_s = self._clock.monotonic_s()
            try:
                self._inventory, self._asked_at_s = await self._engine.inventory(), asked_at_s
            except HotsetError as error:  # perhaps it will the next time; whether it is gone is seen elsewhere
                num_unanswered += 1
                if num_unanswered == _TOLD_AT:
                    _log.warning("the engine does not say what it holds", extra={"reason": error.message})
            else:
                num_unanswered = 0
            await asyncio.sleep(_EVERY_S)

    def report(self) -> InventoryReport | None:
        """Return what it said last; None before it said anything."""
        if self._inventory is None:
            return None
        return InventoryReport(
            loaded=self._inventory.loaded,
            num_running=len(self._inventory.running),
            age_s=self._clock.monotonic_s() - self._asked_at_s,
        )
