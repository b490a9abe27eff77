"""The clients of a storm's cold adapters: all at once with a first-token budget, or several for each without one."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from hotset.bench.asking import Answer, Asker
from hotset.bench.crowd import Habits, Model
from hotset.bench.storm_report import CONTROL, STORM, Visit
from hotset.core.ids import TenantId


@dataclass(frozen=True, slots=True)
class StormClients(Generic[Model]):
    """Who asks for cold adapters in one block."""

    asker: Asker[Model]
    habits: Habits
    cold: Sequence[tuple[TenantId, Model]]
    budget_ms: int
    #: Clients for each adapter where nobody has a budget.
    clients_each: int
    #: For how long an adapter has been in a slot, where that can be seen.
    hot_for_s: Callable[[Model], float | None] = lambda _: None

    async def visits(self, kind: str, chance: random.Random) -> list[Visit]:
        """Ask as this kind of block does; in the control nobody asks."""
        if kind == CONTROL:
            return []
        return await (self.with_budget(chance) if kind == STORM else self.without_budget(chance))

    async def with_budget(self, chance: random.Random) -> list[Visit]:
        """Ask for every cold adapter at once, with a budget."""
        async with asyncio.TaskGroup() as group:
            visits = [group.create_task(self._visit(tenant, model, chance)) for tenant, model in self.cold]
        return [visit.result() for visit in visits]

    async def _visit(self, tenant: TenantId, model: Model, chance: random.Random) -> Visit:
        """Ask; where that is refused, come back once, when told to."""
        first = await self._ask(tenant, model, chance, self.budget_ms)
        if first.retry_after_ms is None:
            return Visit(first)
        await asyncio.sleep(first.retry_after_ms / 1000)
        hot_for_s = self.hot_for_s(model)
        return Visit(first, await self._ask(tenant, model, chance, self.budget_ms), hot_for_s)

    async def without_budget(self, chance: random.Random) -> list[Visit]:
        """Let several clients ask for every cold adapter at once, and wait."""
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._ask(tenant, model, chance, None))
                for _ in range(self.clients_each)
                for tenant, model in self.cold
            ]
        return [Visit(answer.result()) for answer in asked]

    async def _ask(self, tenant: TenantId, model: Model, chance: random.Random, budget_ms: int | None) -> Answer:
        return await self.asker.ask(
            tenant,
            model,
            chance,
            prompt_tokens=self.habits.prompt_tokens,
            new_tokens=self.habits.new_tokens,
            budget_ms=budget_ms,
        )
