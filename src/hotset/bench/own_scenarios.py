"""The scenarios on a fleet that runs: rotation, cliff and storm, each beside its control alone.

Nobody there is plain LRU, and no worker can be looked into: what these reports hold is what clients see.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotset.bench import cliff, rotation, rotation_report, storm, storm_report
from hotset.bench.crowd import Cast, Crowd, Habits, Pace
from hotset.bench.own_fleet import OwnFleet, Reached, client_of, run_on_fleet
from hotset.bench.procfs import machine_words
from hotset.bench.report import Report
from hotset.bench.rounds import UNCOUNTED, Block, Outcomes
from hotset.bench.storm_clients import StormClients
from hotset.bench.storm_report import STORM, StormTaken
from hotset.core.errors import InvalidRequestError
from hotset.core.ids import TenantId

Say = Callable[[str], None]
_Result = TypeVar("_Result")
#: Requests in flight on hot adapters in the storm's control.
_IN_FLIGHT = 8
_NO_LRU = "a fleet has no plain LRU beside it: it is held against its own control alone"
_NO_LOADS = (
    "a fleet shows its clients no loads, no fetches and no slots: how far off a time to come back was is judged by "
    "first tokens alone, and a refusal's time is the client's and the network's, too"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whom to ask, as whom, and for how long."""

    fleet: OwnFleet
    habits: Habits
    pace: Pace
    #: Files of keys: of the victims, and of those that ask for much.
    victim_keys: tuple[Path, ...]
    other_keys: tuple[Path, ...]
    #: Slots of the fleet beyond those of the victims' adapters.
    slots_left: int

    def planned_s(self, num_kinds: int, num_uncounted: int) -> float:
        """Return how long the blocks of a run take."""
        return (self.pace.rounds * num_kinds + num_uncounted) * (self.pace.warmup_s + self.pace.seconds)

    def cast(self, reached: Reached) -> Cast[str]:
        """Return who asks for what: the first of the others is the greedy one.

        Raises:
            InvalidRequestError: a key may call no adapter, or the others' are no more than the slots left.
        """
        hot, others = reached.models_of(self.victim_keys), reached.models_of(self.other_keys)
        greedy = client_of(self.other_keys[0])
        if (num_others := sum(map(len, others.values()))) <= self.slots_left:
            raise InvalidRequestError(
                f"{num_others} adapters of {', '.join(others)} fit the {self.slots_left} slots left; more are needed."
            )
        return Cast(hot=hot, greedy=greedy, many=others[greedy])

    def words(self, cast: Cast[str]) -> dict[str, str]:
        """Return what every scenario's report says of its setting."""
        pace, rate = self.pace, self.habits.victim_rate
        return {
            "client": machine_words(),
            "fleet": f"asked over HTTP at {', '.join(self.fleet.gateways)}; {self.slots_left} slots left",
            "victims": f"{cast.num_hot} adapters; {rate:g} requests/s for each of {len(cast.hot)} keys",
            "requests": f"{self.habits.words()} at most",
            "blocks": f"{pace.rounds} rounds of {pace.seconds:g} s after {pace.warmup_s:g} s, interleaved; "
            "what comes before them once does not count",
        }


def run_rotation(settings: Settings, say: Say) -> Report:
    """Hold a tenant that rotates through all of its adapters against one that stays on those that fit.

    Raises:
        HotsetError: see `own_fleet.run_on_fleet`.
    """
    kinds = (rotation.CONTROL, rotation.ROTATION)

    async def measure(reached: Reached) -> Report:
        cast = settings.cast(reached)
        blocks = rotation.Blocks(settings.habits, settings.pace, settings.slots_left, reached.clock, say)
        outcomes = await blocks.measure(dict.fromkeys(kinds, reached.asker), cast)
        setting = settings.words(cast) | {
            "rotating": f"{settings.habits.in_flight} requests in flight on {len(cast.many)} adapters; "
            f"in the control on {settings.slots_left}"
        }
        return _with_note(rotation_report.build_report(setting, kinds, outcomes), _NO_LRU)

    return _run(settings, settings.planned_s(len(kinds), len(kinds)), measure)


def run_cliff(settings: Settings, say: Say) -> tuple[Report, str]:
    """Let ever more adapters be active, up to five times as many as slots; return the report and its picture.

    Raises:
        HotsetError: see `own_fleet.run_on_fleet`.
    """
    sides = (cliff.HOTSET,)

    async def measure(reached: Reached) -> tuple[Report, str]:
        cast = settings.cast(reached)
        points = points_of(cast.num_hot, settings.slots_left, len(cast.many))
        blocks = cliff.Blocks(settings.habits, settings.pace, points, reached.clock, say)
        outcomes = await blocks.measure(dict.fromkeys(sides, reached.asker), cast)
        setting = settings.words(cast) | {
            "crowd": f"{settings.habits.in_flight} requests in flight on all other active adapters in turn"
        }
        names = [str(point) for point in points]
        report = cliff.build_report(setting, names, outcomes, sides)
        return _with_note(report, _NO_LRU), cliff.build_picture(names, outcomes, sides)

    return _run(settings, settings.planned_s(len(cliff.POINTS), 2), measure)


def run_storm(settings: Settings, budget_ms: int, clients_each: int, say: Say) -> Report:
    """Ask for all cold adapters at once, with a first-token budget and without one.

    Args:
        settings: Their habits are those of the victims.
        budget_ms: First-token budget of who asks for one.
        clients_each: Clients of each adapter where nobody has a budget.
        say: Takes one line of progress at a time.

    Raises:
        HotsetError: see `own_fleet.run_on_fleet`.
    """

    async def measure(reached: Reached) -> Report:
        cast, cold = settings.cast(reached), in_turn(reached.models_of(settings.other_keys))
        cast = replace(cast, many=cast.many[: settings.slots_left])
        clients = StormClients(reached.asker, settings.habits, cold, budget_ms, clients_each)
        outcomes = Outcomes[StormTaken]()
        await _storm_block(settings, reached, cast, clients, Block(UNCOUNTED, "", STORM))
        for number in range(settings.pace.rounds):
            for kind in storm.KINDS:
                habits = replace(settings.habits, in_flight=_IN_FLIGHT if kind == storm_report.CONTROL else 0)
                block = Block(number, "", kind)
                taken = await _storm_block(replace(settings, habits=habits), reached, cast, clients, block)
                outcomes.add(block, taken)
                say(f"round {number + 1} {kind}: {taken.words()}")
        setting = settings.words(cast) | {
            "cold": f"{len(cold)} adapters, the same in every block; keys: {len(settings.other_keys)}",
            "control": f"{_IN_FLIGHT} requests in flight on {len(cast.many)} adapters",
            "budget": f"{budget_ms} ms; without one, {clients_each} clients an adapter",
        }
        return _with_note(storm_report.build_report(setting, outcomes, sees_loads=False), _NO_LOADS)

    return _run(settings, settings.planned_s(len(storm.KINDS), 1), measure)


async def _storm_block(
    settings: Settings, reached: Reached, cast: Cast[str], clients: StormClients[str], block: Block
) -> StormTaken:
    pace, crowd = settings.pace, Crowd(reached.asker, reached.clock, settings.habits, cast.greedy)
    async with asyncio.TaskGroup() as group:
        warm = group.create_task(
            crowd.block(cast.hot, cast.many, seed=block.round, warmup_s=pace.warmup_s, seconds=pace.seconds)
        )
        await asyncio.sleep(pace.warmup_s)
        visits = await clients.visits(block.side, random.Random(block.round))  # noqa: S311 - not a secret
    taken = warm.result()
    return StormTaken(taken.first_token_s, tuple(visits), (), clients.budget_ms, taken.num_victims_refused)


def points_of(num_hot: int, slots_left: int, num_crowd: int) -> list[int]:
    """Return the cliff's numbers of active adapters: of the victims' and at least one of the crowd's, at most all."""
    num_slots, least, most = num_hot + slots_left, num_hot + 1, num_hot + num_crowd
    return sorted({min(most, max(least, round(point * num_slots))) for point in cliff.POINTS})


def in_turn(models: Mapping[TenantId, Sequence[str]]) -> list[tuple[TenantId, str]]:
    """Return all models with whose they are, every client's first one, then every one's second, and so on."""
    rows = zip_longest(*([(client, model) for model in own] for client, own in models.items()))
    return [pair for pair in chain.from_iterable(rows) if pair is not None]


def _run(settings: Settings, planned_s: float, measure: Callable[[Reached], Coroutine[Any, Any, _Result]]) -> _Result:
    return run_on_fleet(settings.fleet, (*settings.victim_keys, *settings.other_keys), planned_s, measure)


def _with_note(report: Report, note: str) -> Report:
    return msgspec.structs.replace(report, notes=(*report.notes, note))
