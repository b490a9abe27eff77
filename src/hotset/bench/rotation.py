"""`hotset bench rotation`: what a tenant that rotates through many adapters does to tenants with a few hot ones.

Two victims ask at a steady rate for adapters inside their reserves. A third tenant keeps as many requests in flight in
every block: on as many hot adapters as slots are left to it (the control), or on the next of many (the rotation). The
rotation also runs on the same engine with plain LRU for all alike, as engines do it by themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hotset.bench.asking import Asker
from hotset.bench.crowd import BlockTaken, Cast, Crowd, Habits, Model, Pace
from hotset.bench.report import Report
from hotset.bench.rotation_report import build_report
from hotset.bench.rounds import UNCOUNTED, Block, Outcomes
from hotset.bench.scenario import beside_lru, run_scenario
from hotset.bench.workers import EngineChoice, Workers
from hotset.core.clock import Clock
from hotset.core.ids import TenantId
from hotset.core.quotas import Quota

VICTIMS = (TenantId("acme"), TenantId("birch"))
ROTATING = TenantId("rotating")
#: The kinds of block, in the order of each round.
CONTROL, ROTATION, LRU = KINDS = "control", "rotation", "rotation, plain LRU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    engine: EngineChoice
    habits: Habits = field(default_factory=Habits)
    rounds: int = 5
    #: Seconds of each block that count, and before them.
    seconds: float = 10.0
    warmup_s: float = 2.0
    num_slots: int = 8
    #: Hot adapters of each victim, all inside its reserve.
    victim_adapters: int = 2
    rotating_adapters: int = 40

    @property
    def slots_left(self) -> int:
        """Slots that no victim is owed."""
        return self.num_slots - len(VICTIMS) * self.victim_adapters


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run the whole comparison.

    Args:
        settings: What to run.
        say: Takes one line of progress at a time.

    Raises:
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    machine, outcomes = run_scenario(settings.engine, lambda workers, clock: _measure(settings, workers, clock, say))
    habits = settings.habits
    setting = {
        "machine": machine,
        "engine": f"{settings.engine.words()}; {settings.num_slots} slots",
        "victims": f"{len(VICTIMS)} tenants, {settings.victim_adapters} adapters and as many slots of reserve each, "
        f"{habits.victim_rate:g} requests/s each",
        "rotating": f"{habits.in_flight} requests in flight on {settings.rotating_adapters} adapters; "
        f"in the control on {settings.slots_left}",
        "requests": habits.words(),
        "blocks": f"{settings.rounds} rounds of {settings.seconds:g} s after {settings.warmup_s:g} s, interleaved; "
        "a shorter round before them does not count",
    }
    return build_report(setting, KINDS, outcomes)


async def _measure(
    settings: Settings, workers: Workers, clock: Clock, say: Callable[[str], None]
) -> Outcomes[BlockTaken]:
    num_slots = settings.num_slots
    say("making adapters")
    hot = {tenant: [workers.publish(tenant, n) for n in range(settings.victim_adapters)] for tenant in VICTIMS}
    many = [workers.publish(ROTATING, number) for number in range(settings.rotating_adapters)]
    quotas = {tenant: Quota(reserve_slots=settings.victim_adapters) for tenant in VICTIMS}
    quotas[ROTATING] = Quota(limit_slots=num_slots)
    pace = Pace(rounds=settings.rounds, seconds=settings.seconds, warmup_s=settings.warmup_s)
    say("starting two engines")
    async with beside_lru(workers, clock, quotas, num_slots) as (ours, theirs):
        askers = {CONTROL: ours, ROTATION: ours, LRU: theirs}
        blocks = Blocks(settings.habits, pace, settings.slots_left, clock, say)
        return await blocks.measure(askers, Cast(hot=hot, greedy=ROTATING, many=many))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a run, whoever is asked."""

    habits: Habits
    pace: Pace
    #: On so many of its adapters the greedy tenant stays in the control.
    slots_left: int
    clock: Clock
    say: Callable[[str], None]

    async def measure(self, askers: Mapping[str, Asker[Model]], cast: Cast[Model]) -> Outcomes[BlockTaken]:
        """Run every kind of block in turn, after a round that does not count.

        Args:
            askers: Who is asked in each kind of block, in their order.
            cast: The victims and the rotating tenant.
        """
        outcomes = Outcomes[BlockTaken]()
        for kind, asker in askers.items():
            await self._block(asker, cast, kind, UNCOUNTED, self.pace.seconds / 2)
        for number in range(self.pace.rounds):
            for kind, asker in askers.items():
                taken = await self._block(asker, cast, kind, number, self.pace.seconds)
                outcomes.add(Block(number, "", kind), taken)
        return outcomes

    async def _block(
        self, asker: Asker[Model], cast: Cast[Model], kind: str, number: int, seconds: float
    ) -> BlockTaken:
        crowd = Crowd(asker, self.clock, self.habits, cast.greedy)
        many = cast.many[: self.slots_left] if kind == CONTROL else cast.many
        taken = await crowd.block(cast.hot, many, seed=number, warmup_s=self.pace.warmup_s, seconds=seconds)
        self.say(
            f"round {number + 1} {kind}: victims' first token p95 {1000 * taken.first_token_p95_s:.0f} ms, "
            f"{taken.tokens_per_s:.0f} tokens/s"
        )
        return taken
