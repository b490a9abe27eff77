"""`hotset bench cliff`: first tokens of tenants inside their reserves as more adapters are active than there are slots.

Two tenants ask at a steady rate for an adapter each, inside their reserves. All other active adapters are a third
tenant's, which keeps as many requests in flight at every point, on the next of its adapters. From half as many active
adapters as slots, the control, to five times as many; at each point also on the same engine with plain LRU for all
alike and no admission.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hotset.bench.asking import Asker
from hotset.bench.crowd import BlockTaken, Cast, Crowd, Habits, Model, Pace
from hotset.bench.plot import Line, draw
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.rotation_report import victims_refused
from hotset.bench.rounds import UNCOUNTED, Block, Outcomes, interleave, over_rounds, ratio_over_rounds
from hotset.bench.scenario import beside_lru, run_scenario
from hotset.bench.stats import upper_bound
from hotset.bench.workers import EngineChoice, Workers
from hotset.core.clock import Clock
from hotset.core.ids import TenantId
from hotset.core.quotas import Quota

RESERVING = (TenantId("acme"), TenantId("birch"))
CROWD = TenantId("crowd")
HOTSET, LRU = "hotset", "plain LRU"
SIDES = (HOTSET, LRU)
#: Active adapters at each point, in slots; the first is the control.
POINTS = (0.5, 1.0, 2.0, 3.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    engine: EngineChoice
    habits: Habits = field(default_factory=lambda: Habits(in_flight=16))
    rounds: int = 5
    #: Seconds of each block that count, and before them.
    seconds: float = 5.0
    warmup_s: float = 1.5
    num_slots: int = 8

    def points(self) -> list[int]:
        """Return the numbers of active adapters; the reserving tenants' and at least one more."""
        return [max(len(RESERVING) + 1, round(point * self.num_slots)) for point in POINTS]


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> tuple[Report, str]:
    """Run the whole comparison; return its report and its picture.

    Raises:
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    machine, outcomes = run_scenario(settings.engine, lambda workers, clock: _measure(settings, workers, clock, say))
    habits = settings.habits
    setting = {
        "machine": machine,
        "engine": f"{settings.engine.words()}; {settings.num_slots} slots",
        "reserving": f"{len(RESERVING)} tenants, one adapter and one slot of reserve each, "
        f"{habits.victim_rate:g} requests/s each",
        "crowd": f"one tenant, {habits.in_flight} requests in flight on all other active adapters in turn",
        "requests": habits.words(),
        "blocks": f"{settings.rounds} rounds of {settings.seconds:g} s after {settings.warmup_s:g} s, interleaved; "
        "the first and the last point run once before them",
    }
    points = [str(point) for point in settings.points()]
    return build_report(setting, points, outcomes), build_picture(points, outcomes)


async def _measure(
    settings: Settings, workers: Workers, clock: Clock, say: Callable[[str], None]
) -> Outcomes[BlockTaken]:
    num_slots, points = settings.num_slots, settings.points()
    say("making adapters")
    hot = {tenant: [workers.publish(tenant, 0)] for tenant in RESERVING}
    others = [workers.publish(CROWD, number) for number in range(max(points) - len(RESERVING))]
    quotas = {tenant: Quota(reserve_slots=1) for tenant in RESERVING}
    quotas[CROWD] = Quota(limit_slots=num_slots)
    pace = Pace(rounds=settings.rounds, seconds=settings.seconds, warmup_s=settings.warmup_s)
    say("starting two engines")
    async with beside_lru(workers, clock, quotas, num_slots) as askers:
        blocks = Blocks(settings.habits, pace, points, clock, say)
        return await blocks.measure(dict(zip(SIDES, askers, strict=True)), Cast(hot=hot, greedy=CROWD, many=others))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a run, whoever is asked."""

    habits: Habits
    pace: Pace
    #: Numbers of active adapters, the victims' among them.
    points: Sequence[int]
    clock: Clock
    say: Callable[[str], None]

    async def measure(self, askers: Mapping[str, Asker[Model]], cast: Cast[Model]) -> Outcomes[BlockTaken]:
        """Run every point on every side in turn; the first and the last one once before.

        Args:
            askers: Who is asked on each side.
            cast: The reserving tenants and the crowd, with enough adapters for the last point.
        """
        outcomes = Outcomes[BlockTaken]()
        for side, point in itertools.product(askers, (self.points[0], self.points[-1])):
            await self._block(askers[side], cast, Block(UNCOUNTED, str(point), side))
        for block in interleave(list(askers), [str(point) for point in self.points], self.pace.rounds):
            outcomes.add(block, await self._block(askers[block.side], cast, block))
        return outcomes

    async def _block(self, asker: Asker[Model], cast: Cast[Model], block: Block) -> BlockTaken:
        crowd = Crowd(asker, self.clock, self.habits, cast.greedy)
        active = cast.many[: int(block.load) - cast.num_hot]
        warmup_s, seconds = self.pace.warmup_s, self.pace.seconds
        taken = await crowd.block(cast.hot, active, seed=block.round, warmup_s=warmup_s, seconds=seconds)
        first_ms = 1000 * taken.first_token_p95_s
        self.say(f"round {block.round + 1}, {block.load} active, {block.side}: first token p95 {first_ms:.0f} ms")
        return taken


def build_report(
    setting: dict[str, str], points: list[str], outcomes: Outcomes[BlockTaken], sides: Sequence[str] = SIDES
) -> Report:
    """Return the report: each side at each point, its ratio to its own control, and the bounds of Hotset's."""
    columns = (
        Column(key="p95", heading="first token p95, reserving", unit="ms"),
        Column(key="ratio", heading=f"to {points[0]} active", unit="ratio", digits=2),
        Column(key="tokens", heading="all tenants", unit="tokens/s"),
        Column(key="refused", heading="refused", unit="requests"),
    )
    sections = [Section(title=side, columns=columns, rows=_rows(side, points, outcomes)) for side in sides]
    bounds = [_bound(point, points[0], outcomes) for point in points[1:]]
    taken = {f"{side}, {point} active": outcomes.rounds(side, point) for side in sides for point in points}
    notes = (*bounds, *victims_refused(taken))
    return Report(bench="cliff", setting=setting, sections=tuple(sections), notes=notes)


def build_picture(points: list[str], outcomes: Outcomes[BlockTaken], sides: Sequence[str] = SIDES) -> str:
    """Return the same as a picture."""
    lines = [
        Line(side, tuple(over_rounds(_first_token_ms(outcomes, side, point)) for point in points)) for side in sides
    ]
    heading = "first token p95 of tenants inside their reserves, ms"
    return draw("The cliff", "active adapters", heading, [float(point) for point in points], lines)


def _rows(side: str, points: list[str], outcomes: Outcomes[BlockTaken]) -> tuple[Row, ...]:
    control = _first_token_ms(outcomes, side, points[0])
    rows: list[Row] = []
    for point in points:
        taken, p95 = outcomes.rounds(side, point), _first_token_ms(outcomes, side, point)
        figures = {
            "p95": over_rounds(p95),
            "ratio": ratio_over_rounds(p95, control),
            "tokens": over_rounds({number: each.tokens_per_s for number, each in taken.items()}),
            "refused": over_rounds({number: float(each.num_refused) for number, each in taken.items()}),
        }
        rows.append(Row(side=f"{point} active", figures=figures))
    return tuple(rows)


def _first_token_ms(outcomes: Outcomes[BlockTaken], side: str, point: str) -> dict[int, float]:
    return {number: 1000 * each.first_token_p95_s for number, each in outcomes.rounds(side, point).items()}


def _bound(point: str, control: str, outcomes: Outcomes[BlockTaken]) -> str:
    over, under = (_first_token_ms(outcomes, HOTSET, each) for each in (point, control))
    if len(over) < 2:
        return f"{point} active: one round gives no bound"
    bound = upper_bound([over[number] / under[number] for number in sorted(over)])
    return f"{point} active: upper 95% bound of {HOTSET}'s p95 ratio to {control} active {bound:.2f}"
