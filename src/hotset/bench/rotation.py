"""`hotset bench rotation`: what a tenant that rotates through many adapters does to tenants with a few hot ones.

Two victims ask at a steady rate for adapters inside their reserves. A third tenant keeps as many requests in flight in
every block: on as many hot adapters as slots are left to it (the control), or on the next of many (the rotation). The
rotation also runs on the same engine with plain LRU for all alike, as engines do it by themselves.
"""

import asyncio
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hotset.bench.procfs import machine_words
from hotset.bench.report import Report
from hotset.bench.rotation_report import BlockTaken, build_report
from hotset.bench.rotation_world import EVERYBODY, RotationWorld
from hotset.bench.rounds import Block, Outcomes
from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import HotsetError
from hotset.core.ids import BaseName, KeyId, RequestId, Route, TenantId, engine_name
from hotset.core.messages import Delta, Failed, Generate, Sampling
from hotset.core.ports import Agent, Work
from hotset.core.quotas import Quota
from hotset.storage.base_files import read_base_folder

VICTIMS = (TenantId("acme"), TenantId("birch"))
ROTATING = TenantId("rotating")
#: The kinds of block, in the order of each round.
CONTROL, ROTATION, LRU = "control", "rotation", "rotation, plain LRU"
_LOWEST_TOKEN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    base_folder: Path
    rounds: int = 5
    #: Seconds of each block that count, and before them.
    seconds: float = 10.0
    warmup_s: float = 2.0
    num_slots: int = 8
    #: Hot adapters of each victim, all inside its reserve.
    victim_adapters: int = 2
    #: Requests a second of each victim, with random gaps.
    victim_rate: float = 2.0
    rotating_adapters: int = 40
    #: Requests that the rotating tenant keeps in flight.
    in_flight: int = 8
    prompt_tokens: int = 16
    new_tokens: int = 12

    @property
    def slots_left(self) -> int:
        """Slots that no victim is owed."""
        return self.num_slots - len(VICTIMS) * self.victim_adapters


@dataclass(slots=True)
class _Seen:
    """What the clients of one block saw, from the end of its warm-up on."""

    first_token_s: list[float] = field(default_factory=list[float])
    num_tokens: int = 0
    num_refused: int = 0


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run the whole comparison.

    Args:
        settings: What to run.
        say: Takes one line of progress at a time.

    Raises:
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    clock, machine = SystemClock(), machine_words()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as folder:
        outcomes = asyncio.run(_measure(settings, Path(folder), clock, say))
    setting = {
        "machine": machine,
        "base": f"{settings.base_folder.name}, bfloat16, {settings.num_slots} slots",
        "victims": f"{len(VICTIMS)} tenants, {settings.victim_adapters} adapters and as many slots of reserve each, "
        f"{settings.victim_rate:g} requests/s each",
        "rotating": f"{settings.in_flight} requests in flight on {settings.rotating_adapters} adapters; "
        f"in the control on {settings.slots_left}",
        "requests": f"{settings.prompt_tokens} prompt tokens, {settings.new_tokens} generated",
        "blocks": f"{settings.rounds} rounds of {settings.seconds:g} s after {settings.warmup_s:g} s, interleaved",
    }
    return build_report(setting, (CONTROL, ROTATION, LRU), outcomes)


async def _measure(settings: Settings, folder: Path, clock: Clock, say: Callable[[str], None]) -> Outcomes[BlockTaken]:
    base = read_base_folder(settings.base_folder, BaseName("bench"), ())
    world = RotationWorld(folder, base, settings.base_folder, num_slots=settings.num_slots, clock=clock)
    say("making adapters")
    hot = {tenant: [world.publish(tenant, n) for n in range(settings.victim_adapters)] for tenant in VICTIMS}
    many = [world.publish(ROTATING, number) for number in range(settings.rotating_adapters)]
    quotas = {tenant: Quota(reserve_slots=settings.victim_adapters) for tenant in VICTIMS}
    quotas[ROTATING] = Quota(limit_slots=settings.num_slots)
    outcomes = Outcomes[BlockTaken]()
    async with AsyncExitStack() as running:
        say("starting two engines")
        hotset = await running.enter_async_context(world.agent("hotset", quotas, is_lru=False))
        everybody = {EVERYBODY: Quota(limit_slots=settings.num_slots)}
        lru = await running.enter_async_context(world.agent("lru", everybody, is_lru=True))
        for number in range(settings.rounds):
            for kind in (CONTROL, ROTATION, LRU):
                routes = many[: settings.slots_left] if kind == CONTROL else many
                load = _Load(settings, clock, base.shape.vocab_size, lru if kind == LRU else hotset, is_lru=kind == LRU)
                taken = await load.block(hot, routes, seed=number)
                outcomes.add(Block(number, "", kind), taken)
                say(
                    f"round {number + 1} {kind}: victims' first token p95 {1000 * taken.first_token_p95_s:.0f} ms, "
                    f"{taken.tokens_per_s:.0f} tokens/s"
                )
    return outcomes


class _Load:
    """The clients of one block."""

    def __init__(self, settings: Settings, clock: Clock, vocab_size: int, agent: Agent, *, is_lru: bool) -> None:
        self._settings = settings
        self._clock = clock
        self._vocab_size = vocab_size
        self._agent = agent
        self._is_lru = is_lru
        self._numbers = itertools.count()
        self._counts = False
        self._seen = _Seen()

    async def block(self, hot: dict[TenantId, list[Route]], routes: list[Route], *, seed: int) -> BlockTaken:
        """Run all clients for one block."""
        settings = self._settings
        turns = itertools.cycle(routes)
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(self._steady(t, own, random.Random(f"{t} {seed}"))) for t, own in hot.items()]  # noqa: S311
            clients += [group.create_task(self._greedy(turns, random.Random(n))) for n in range(settings.in_flight)]  # noqa: S311
            await asyncio.sleep(settings.warmup_s)
            self._counts = True
            began_s = self._clock.monotonic_s()
            await asyncio.sleep(settings.seconds)
            seconds = self._clock.monotonic_s() - began_s
            self._counts = False
            for client in clients:
                client.cancel()
        seen = self._seen
        return BlockTaken(tuple(seen.first_token_s), seen.num_tokens, seen.num_refused, seconds)

    async def _steady(self, tenant: TenantId, routes: list[Route], chance: random.Random) -> None:
        """Ask at a rate, whatever becomes of the requests."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(chance.expovariate(self._settings.victim_rate))
                group.create_task(self._ask(tenant, chance.choice(routes), chance, is_victim=True))

    async def _greedy(self, turns: Iterator[Route], chance: random.Random) -> None:
        """Keep one request in flight, each on the next adapter."""
        while True:
            await self._ask(ROTATING, next(turns), chance, is_victim=False)

    async def _ask(self, tenant: TenantId, route: Route, chance: random.Random, *, is_victim: bool) -> None:
        request = RequestId(f"{tenant}-{id(self)}-{next(self._numbers)}")
        prompt = tuple(chance.choices(range(_LOWEST_TOKEN, self._vocab_size), k=self._settings.prompt_tokens))
        generate = Generate(
            request_id=request,
            engine_name=engine_name(route),
            cache_salt=tenant,
            sampling=Sampling(temperature=0.0, max_tokens=self._settings.new_tokens, ignore_eos=True),
            prompts=(prompt,),
        )
        account = EVERYBODY if self._is_lru else tenant
        began_s, is_first = self._clock.monotonic_s(), True
        try:
            ticket = await self._agent.submit(Work(request, account, KeyId("bench"), route, generate))
        except HotsetError:
            self._seen.num_refused += self._counts
            await asyncio.sleep(0.05)
            return
        try:
            while events := await ticket.events():
                if isinstance(events[-1], Failed):
                    self._seen.num_refused += self._counts
                num_tokens = sum(event.num_tokens for event in events if isinstance(event, Delta))
                if num_tokens and is_first:
                    is_first = False
                    if is_victim and self._counts:
                        self._seen.first_token_s.append(self._clock.monotonic_s() - began_s)
                self._seen.num_tokens += num_tokens * self._counts
        except asyncio.CancelledError:
            await ticket.abort()
            raise
