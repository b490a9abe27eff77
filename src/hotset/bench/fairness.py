"""`hotset bench fairness`: tenants who all want more than there is, on a real agent, beside first come, first served.

The trace of 27 tenants, squeezed until it asks for so many times what the engine can do, as it is and with one tenant a
hundred times as loud; with a slot for every adapter, and with two adapters for each tenant's slot. What is measured is
what `hotset bench simulate-fairness` measures on simulated workers. Each round takes the next piece of the trace, the
same for both sides.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotset.bench.asking import AgentAsker
from hotset.bench.report import Report, Section
from hotset.bench.rounds import Block, Outcomes, interleave
from hotset.bench.scenario import run_scenario
from hotset.bench.sharing import (
    FAIR,
    FIRST_COME,
    SHARING_COLUMNS,
    Load,
    Trace,
    loads_of,
    measure,
    read_trace,
    sharing_notes,
    sharing_row,
)
from hotset.bench.workers import EVERYBODY, EngineChoice, Workers
from hotset.core.clock import Clock
from hotset.core.ids import RequestId, Route, TenantId
from hotset.core.quotas import Quota
from hotset.planner.fairness_scenario import Arrival
from hotset.planner.one_worker import Served

_SIDES = (FAIR, FIRST_COME)
_MODEL_LEN_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    engine: EngineChoice
    traces_folder: Path
    #: Of each load on each side, all rounds together.
    minutes: float = 5.0
    rounds: int = 5
    #: Times what the engine can do.
    overload: float = 2.0
    #: What the trace's prompts and answers are divided by, so that a slow engine serves many requests in minutes.
    shortened: float = 1.0
    sequences_max: int = 8

    @property
    def block_s(self) -> float:
        """Seconds of each block."""
        return self.minutes * 60 / self.rounds


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Serve every load on either side.

    Raises:
        ConfigError: the trace is missing or broken.
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    trace = read_trace(settings.traces_folder, settings.shortened)
    machine, outcomes = run_scenario(
        settings.engine, lambda workers, clock: _measure(settings, trace, workers, clock, say)
    )
    setting = {
        "machine": machine,
        "engine": settings.engine.words(),
        "worker": f"a slot for every tenant, {settings.sequences_max} sequences",
        "load": f"{settings.overload:g} times what the engine was just seen to do; "
        f"prompts and answers 1/{settings.shortened:g} as long as in the trace",
        "blocks": f"{settings.rounds} rounds of {settings.block_s:g} s for each load, both sides in turn",
    }
    sections = [
        Section(
            title=load.name,
            columns=SHARING_COLUMNS,
            rows=tuple(sharing_row(side, outcomes.rounds(side, load.name)) for side in _SIDES),
        )
        for load in loads_of(trace)
    ]
    return Report(bench="fairness", setting=setting, sections=tuple(sections), notes=sharing_notes(trace))


async def _measure(
    settings: Settings, trace: Trace, workers: Workers, clock: Clock, say: Callable[[str], None]
) -> Outcomes[dict[str, float]]:
    say("making adapters")
    loads = {load.name: load for load in loads_of(trace)}
    counts = range(max(load.num_adapters for load in loads.values()))
    tenants = sorted({arrival.tenant for arrival in trace.arrivals})
    routes = {tenant: [workers.publish(tenant, number) for number in counts] for tenant in tenants}
    sharing = _Sharing(settings, workers, clock, routes)
    outcomes = Outcomes[dict[str, float]]()
    for block in interleave(_SIDES, list(loads), settings.rounds):
        served = await sharing.block(block, loads[block.load])
        outcomes.add(block, measure(served, settings.sequences_max, trace.loud))
        say(f"round {block.round + 1}, {block.load}, {block.side}: {len(served):,} requests")
    return outcomes


def piece(load: Load, tokens_per_s: float, number: int, lasts_s: float) -> list[Arrival]:
    """Return so many seconds of a load that asks for so many tokens a second; of several, each the next ones.

    Args:
        load: Begins anew at its end.
        tokens_per_s: Generated ones.
        number: Of the piece, from 0.
        lasts_s: How long each is.
    """
    arrivals = load.arrivals
    began_s, trace_s = arrivals[0].at_s, arrivals[-1].at_s - arrivals[0].at_s
    scale = sum(each.output_tokens for each in arrivals) / tokens_per_s / trace_s
    from_s, until_s = number * lasts_s, (number + 1) * lasts_s
    found: list[Arrival] = []
    for lap in itertools.count(int(from_s // (trace_s * scale))):
        for each in arrivals:
            at_s = (lap * trace_s + each.at_s - began_s) * scale
            if at_s >= until_s:
                return found
            if at_s >= from_s:
                found.append(replace(each, at_s=at_s - from_s))
    return found


class _Sharing:
    """The blocks of a run, each on an agent of its own."""

    def __init__(
        self, settings: Settings, workers: Workers, clock: Clock, routes: Mapping[TenantId, Sequence[Route]]
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._clock = clock
        self._routes = routes
        self._chance = random.Random(0)  # noqa: S311 - not a secret

    async def block(self, block: Block, load: Load) -> list[Served]:
        """Serve one piece of a load on one side."""
        tenants, is_fair = list(self._routes), block.side == FAIR
        quotas = {tenant: Quota(1, 1) for tenant in tenants} if is_fair else {EVERYBODY: Quota(0, len(tenants))}
        async with self._workers.agent(
            f"{block.round}-{load.name}-{is_fair}".replace(" ", "-"),
            quotas,
            num_slots=len(tenants),
            num_sequences_max=self._settings.sequences_max,
            model_len_max=_MODEL_LEN_MAX,
        ) as worker:
            account = None if is_fair else EVERYBODY
            asker = AgentAsker(worker.agent, self._clock, self._workers.base.shape.vocab_size, account=account)
            tokens_per_s = self._settings.overload * await self._rate(asker)
            return await self._serve(asker, piece(load, tokens_per_s, block.round, self._settings.block_s))

    async def _rate(self, asker: AgentAsker) -> float:
        """Bring every tenant's first adapter in, then return the tokens a second of a full engine."""
        for tenant, routes in self._routes.items():
            await asker.ask(tenant, routes[0], self._chance, prompt_tokens=8, new_tokens=1)
        some = list(self._routes.items())[: self._settings.sequences_max]
        tokens_per_s = 0.0
        for new_tokens in (8, 64):  # what an engine does for the first time takes longer
            began_s = self._clock.monotonic_s()
            asked = [
                asker.ask(tenant, routes[0], self._chance, prompt_tokens=8, new_tokens=new_tokens)
                for tenant, routes in some
            ]
            num_tokens = sum(answer.num_tokens for answer in await asyncio.gather(*asked))
            tokens_per_s = num_tokens / (self._clock.monotonic_s() - began_s)
        return tokens_per_s

    async def _serve(self, asker: AgentAsker, arrivals: Sequence[Arrival]) -> list[Served]:
        """Ask as the arrivals say until the last one has come; return what each got by then."""
        served: list[Served] = []
        began_s = self._clock.monotonic_s()
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            for number, arrival in enumerate(arrivals):
                await asyncio.sleep(max(0.0, began_s + arrival.at_s - self._clock.monotonic_s()))
                tokens, now_s = (arrival.input_tokens, arrival.output_tokens), self._clock.monotonic_s()
                served.append(Served(RequestId(str(number)), arrival.tenant, *tokens, now_s))
                tasks.append(group.create_task(self._ask(asker, arrival, served[-1])))
            for task in tasks:
                task.cancel()
        return served

    async def _ask(self, asker: AgentAsker, arrival: Arrival, served: Served) -> None:
        def accepted(load_seconds: float) -> None:
            served.hot_at_s, served.dispatched_at_s = served.asked_at_s + load_seconds, self._clock.monotonic_s()

        def came(num_tokens: int) -> None:
            now_s = self._clock.monotonic_s()
            served.first_token_at_s = now_s if served.first_token_at_s is None else served.first_token_at_s
            served.token_at_s += [now_s] * num_tokens

        answer = await asker.ask(
            arrival.tenant,
            self._routes[arrival.tenant][arrival.adapter],
            self._chance,
            prompt_tokens=max(1, arrival.input_tokens),
            new_tokens=arrival.output_tokens,
            on_accepted=accepted,
            on_tokens=came,
        )
        served.ended_at_s, served.code = self._clock.monotonic_s(), answer.code
