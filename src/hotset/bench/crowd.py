"""The clients of a block: victims that ask at a steady rate, and one greedy tenant that keeps requests in flight."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hotset.bench.asking import Answer, Asker
from hotset.bench.stats import percentile
from hotset.core.clock import Clock
from hotset.core.ids import TenantId

Model = TypeVar("Model")

#: After a refusal or a failure the greedy tenant waits for so long.
_REFUSED_S = 0.05


@dataclass(frozen=True, slots=True)
class BlockTaken:
    """What one block's clients saw."""

    #: Of the victims' requests. One that had no token at the end of the block waited until then, one that was turned
    #: away for the whole of it: who gets nothing is not left out.
    first_token_s: tuple[float, ...]
    #: Generated over all tenants.
    num_tokens: int
    num_refused: int
    seconds: float
    #: Of these, the victims'.
    num_victims_refused: int = 0

    @property
    def first_token_p95_s(self) -> float:
        """The victims' 95th percentile; of none, the whole block."""
        return percentile(self.first_token_s, 95) if self.first_token_s else self.seconds

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all tenants a second."""
        return self.num_tokens / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How the clients ask."""

    #: Requests a second of each victim, with random gaps.
    victim_rate: float = 2.0
    #: Requests that the greedy tenant keeps in flight.
    in_flight: int = 8
    prompt_tokens: int = 16
    new_tokens: int = 12

    def words(self) -> str:
        """Return them as the report says them."""
        return f"{self.prompt_tokens} prompt tokens, {self.new_tokens} generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how long the clients ask."""

    rounds: int
    #: Seconds of each block that count, and before them.
    seconds: float
    warmup_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Generic[Model]):
    """Who the clients are, and what they ask for."""

    #: The victims' adapters.
    hot: Mapping[TenantId, Sequence[Model]]
    greedy: TenantId
    #: The greedy tenant's adapters.
    many: Sequence[Model]

    @property
    def num_hot(self) -> int:
        """Adapters of all victims."""
        return sum(map(len, self.hot.values()))


@dataclass(slots=True)
class _Seen:
    """What counts of a block: from the end of its warm-up on."""

    first_token_s: list[float] = field(default_factory=list[float])
    num_tokens: int = 0
    num_refused: int = 0
    num_victims_refused: int = 0


class Crowd(Generic[Model]):
    """The clients of one block."""

    def __init__(self, asker: Asker[Model], clock: Clock, habits: Habits, greedy: TenantId) -> None:
        self._asker = asker
        self._clock = clock
        self._habits = habits
        self._greedy_tenant = greedy
        self._counts = False
        self._counted_s = 0.0
        self._seen = _Seen()

    async def block(
        self,
        hot: Mapping[TenantId, Sequence[Model]],
        many: Sequence[Model],
        *,
        seed: int,
        warmup_s: float,
        seconds: float,
    ) -> BlockTaken:
        """Run all clients for one block.

        Args:
            hot: The victims' adapters.
            many: The greedy tenant's, which it asks for in turn.
            seed: Of gaps, choices and prompts.
            warmup_s: Before anything counts.
            seconds: That count.
        """
        turns, self._counted_s = itertools.cycle(many), seconds
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(self._steady(t, own, random.Random(f"{t} {seed}"))) for t, own in hot.items()]  # noqa: S311
            in_flight = range(self._habits.in_flight)
            clients += [group.create_task(self._greedy(turns, random.Random(n))) for n in in_flight]  # noqa: S311
            await asyncio.sleep(warmup_s)
            self._counts = True
            began_s = self._clock.monotonic_s()
            await asyncio.sleep(seconds)
            took_s = self._clock.monotonic_s() - began_s
            self._counts = False
            for client in clients:
                client.cancel()
        seen = self._seen
        first_token_s = tuple(seen.first_token_s)
        return BlockTaken(first_token_s, seen.num_tokens, seen.num_refused, took_s, seen.num_victims_refused)

    async def _steady(self, tenant: TenantId, models: Sequence[Model], chance: random.Random) -> None:
        """Ask at a rate, whatever becomes of the requests."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(chance.expovariate(self._habits.victim_rate))
                group.create_task(self._victim_asks(tenant, chance.choice(models), chance))

    async def _victim_asks(self, tenant: TenantId, model: Model, chance: random.Random) -> None:
        asked_at_s, waits = self._clock.monotonic_s(), True

        def waited() -> None:
            nonlocal waits
            if waits and self._counts:
                self._seen.first_token_s.append(self._clock.monotonic_s() - asked_at_s)
            waits = False

        try:
            answer = await self._ask(tenant, model, chance, waited)
        except asyncio.CancelledError:
            if waits:
                self._seen.first_token_s.append(self._clock.monotonic_s() - asked_at_s)
            raise
        self._seen.num_victims_refused += self._counts and bool(answer.code)
        if waits and self._counts:
            self._seen.first_token_s.append(self._counted_s)

    async def _greedy(self, turns: Iterator[Model], chance: random.Random) -> None:
        """Keep one request in flight, each on the next adapter."""
        while True:
            answer = await self._ask(self._greedy_tenant, next(turns), chance)
            if answer.code:
                await asyncio.sleep(_REFUSED_S)

    async def _ask(
        self, tenant: TenantId, model: Model, chance: random.Random, begins: Callable[[], None] = lambda: None
    ) -> Answer:
        def came(num_tokens: int) -> None:
            begins()
            self._seen.num_tokens += num_tokens * self._counts

        answer = await self._asker.ask(
            tenant,
            model,
            chance,
            prompt_tokens=self._habits.prompt_tokens,
            new_tokens=self._habits.new_tokens,
            on_tokens=came,
        )
        self._seen.num_refused += self._counts and bool(answer.code)
        return answer
