"""`hotset bench storm`: many cold adapters asked for at once, with a first-token budget and without one.

In each round on workers of their own: **control**, where two tenants ask at a steady rate for hot adapters inside their
reserves, and a third keeps the other slots busy with hot ones; **storm**, where instead every cold adapter is asked for
at once with a budget, each refused client coming back once, when it was told to; **misses**, where several clients
ask for each cold adapter at once and wait.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from hotset.bench.asking import AgentAsker
from hotset.bench.crowd import Crowd, Habits
from hotset.bench.report import Report
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.scenario import run_scenario
from hotset.bench.storm_clients import StormClients
from hotset.bench.storm_report import CONTROL, MISSES, STORM, StormTaken, build_report
from hotset.bench.workers import EngineChoice, Worker, Workers
from hotset.core.clock import Clock
from hotset.core.ids import Route, TenantId, engine_name
from hotset.core.quotas import Quota

WARM = (TenantId("acme"), TenantId("birch"))
#: Who keeps the other slots busy in the control.
HOT = TenantId("hot")
#: The cold adapters' tenants.
NUM_COLD_TENANTS = 10
#: The kinds of block, in the order of each round.
KINDS = (CONTROL, STORM, MISSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    engine: EngineChoice
    habits: Habits = field(default_factory=lambda: Habits(victim_rate=4.0, in_flight=0))
    rounds: int = 5
    #: Seconds for which the warm tenants' first tokens count.
    seconds: float = 10.0
    warmup_s: float = 6.0
    num_slots: int = 8
    #: Hot adapters of each warm tenant, all inside its reserve.
    warm_adapters: int = 2
    cold_adapters: int = 200
    budget_ms: int = 2000
    #: Requests in flight on hot adapters in the control.
    in_flight: int = 8
    #: Clients for each cold adapter where nobody has a budget.
    clients_each: int = 5
    #: Others that every worker has served before, so that it knows what a crowd takes.
    drill_adapters: int = 24


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run all rounds.

    Raises:
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    machine, outcomes = run_scenario(
        settings.engine, lambda workers, clock: _Storm(settings, workers, clock, say).measure()
    )
    habits = settings.habits
    setting = {
        "machine": machine,
        "engine": f"{settings.engine.words()}; {settings.num_slots} slots",
        "warm": f"{len(WARM)} tenants, {settings.warm_adapters} adapters and as many slots of reserve each, "
        f"{habits.victim_rate:g} requests/s each",
        "cold": f"{settings.cold_adapters} adapters of {NUM_COLD_TENANTS} tenants; "
        f"each worker has served {settings.drill_adapters} others at once before",
        "control": f"{settings.in_flight} requests in flight on hot adapters in the slots that are left",
        "budget": f"{settings.budget_ms} ms; without one, {settings.clients_each} clients an adapter",
        "requests": habits.words(),
        "blocks": f"{settings.rounds} rounds, each of {', '.join(KINDS)}",
    }
    return build_report(setting, outcomes)


class _Storm:
    """All rounds of one run."""

    def __init__(self, settings: Settings, workers: Workers, clock: Clock, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._say = say
        self._workers = workers
        say("making adapters")
        self._warm = {
            tenant: [self._workers.publish(tenant, n) for n in range(settings.warm_adapters)] for tenant in WARM
        }
        slots_left = settings.num_slots - len(WARM) * settings.warm_adapters
        self._hot = [self._workers.publish(HOT, number) for number in range(slots_left)]
        tenants = [TenantId(f"cold-{number}") for number in range(NUM_COLD_TENANTS)]
        count = settings.cold_adapters + settings.drill_adapters
        owners = [tenants[number % NUM_COLD_TENANTS] for number in range(count)]
        cold = [(tenant, self._workers.publish(tenant, number)) for number, tenant in enumerate(owners)]
        self._cold, self._drill = cold[: settings.cold_adapters], cold[settings.cold_adapters :]

    async def measure(self) -> Outcomes[StormTaken]:
        """Run every block on a worker of its own, so that what is cold is cold."""
        outcomes = Outcomes[StormTaken]()
        for number in range(self._settings.rounds):
            for kind in KINDS:
                taken = await self._block(kind, number)
                outcomes.add(Block(number, "", kind), taken)
                self._say(f"round {number + 1} {kind}: {taken.words()}")
        return outcomes

    async def _block(self, kind: str, number: int) -> StormTaken:
        settings = self._settings
        habits = replace(settings.habits, in_flight=settings.in_flight) if kind == CONTROL else settings.habits
        quotas: Mapping[TenantId, Quota] = {t: Quota(reserve_slots=settings.warm_adapters) for t in WARM}
        async with self._workers.agent(f"{kind}-{number}", quotas, num_slots=settings.num_slots) as worker:
            asker = AgentAsker(worker.agent, self._clock, self._workers.base.shape.vocab_size)
            crowd = Crowd(asker, self._clock, habits, HOT)
            clients = self._clients(asker, worker)
            began_s = self._clock.monotonic_s()
            warm = asyncio.create_task(
                crowd.block(self._warm, self._hot, seed=number, warmup_s=settings.warmup_s, seconds=settings.seconds)
            )
            await asyncio.sleep(settings.warmup_s / 3)
            await replace(clients, cold=self._drill, clients_each=1).without_budget(random.Random(number))  # noqa: S311 - not a secret
            await asyncio.sleep(max(0.0, began_s + settings.warmup_s - self._clock.monotonic_s()))
            worker.loads.clear()
            visits = await clients.visits(kind, random.Random(number))  # noqa: S311 - not a secret
            taken = await warm
            loads, num_refused = tuple(worker.loads), taken.num_victims_refused
            return StormTaken(taken.first_token_s, tuple(visits), loads, settings.budget_ms, num_refused)

    def _clients(self, asker: AgentAsker, worker: Worker) -> StormClients[Route]:
        settings, hot_for_s = self._settings, partial(_hot_for_s, worker)
        return StormClients(
            asker, settings.habits, self._cold, settings.budget_ms, settings.clients_each, hot_for_s=hot_for_s
        )


def _hot_for_s(worker: Worker, route: Route) -> float | None:
    """Return for how long a version has been in a slot; None where it is in none."""
    (report,) = worker.agent.view_residency()
    slots = report.residency.slots if report.residency is not None else ()
    return next((slot.hot_for_s for slot in slots if slot.version == engine_name(route)), None)
