"""`hotset bench fairness`: tenants who all want more than there is, on a real agent, beside first come, first served.

The trace of 27 tenants, squeezed until it asks for so many times what the engine can do, as it is and with one tenant a
hundred times as loud; a slot for every adapter, so that the queue before the engine alone decides. What is measured is
what `hotset bench simulate-fairness` measures on simulated workers.
"""

import asyncio
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotset.bench.asking import Asker
from hotset.bench.procfs import machine_words
from hotset.bench.report import Report, Section
from hotset.bench.simulated import FAIR, FIRST_COME, SHARING_COLUMNS, sharing_loads, sharing_row
from hotset.bench.workers import EVERYBODY, EngineChoice, Workers
from hotset.core.clock import Clock
from hotset.core.ids import RequestId, Route, TenantId
from hotset.core.quotas import Quota
from hotset.planner.fairness_scenario import Arrival, FairnessShape
from hotset.planner.one_worker import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run and for how long."""

    engine: EngineChoice
    traces_folder: Path
    minutes: float = 5.0
    #: Times what the engine can do.
    overload: float = 2.0
    sequences_max: int = 8


def run(settings: Settings, say: Callable[[str], None] = lambda _: None) -> Report:
    """Serve every load on either side.

    Raises:
        ConfigError: the trace is missing or broken.
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    machine = machine_words()
    loads, loud = sharing_loads(settings.traces_folder)
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as folder:
        sections = settings.engine.run(lambda clock: _measure(settings, loads, loud, Path(folder), clock, say))
    setting = {
        "machine": machine,
        "engine": settings.engine.words(),
        "worker": f"a slot for every adapter, {settings.sequences_max} sequences",
        "load": f"{settings.overload:g} times what the engine can do, for {settings.minutes:g} minutes at most",
    }
    notes = (
        "gap: the widest difference of two tenants' weighted tokens over any span in which both wait",
        "bound: theorem 4.4 of arXiv 2401.00588",
        f"quiet tenants: all but {loud}",
    )
    return Report(bench="fairness", setting=setting, sections=sections, notes=notes)


async def _measure(
    settings: Settings,
    loads: Mapping[str, Sequence[Arrival]],
    loud: TenantId,
    folder: Path,
    clock: Clock,
    say: Callable[[str], None],
) -> tuple[Section, ...]:
    workers = Workers(folder, settings.engine, clock)
    tenants = sorted({arrival.tenant for arrivals in loads.values() for arrival in arrivals})
    routes = {tenant: workers.publish(tenant, 0) for tenant in tenants}
    shape = FairnessShape(sequences_max=settings.sequences_max)
    sections: list[Section] = []
    for name, arrivals in loads.items():
        rows = []
        for side in (FAIR, FIRST_COME):
            quotas = (
                {t: Quota(reserve_slots=1) for t in tenants} if side == FAIR else {EVERYBODY: Quota(0, len(tenants))}
            )
            async with workers.agent(
                f"{len(sections)}-{side == FAIR}",
                quotas,
                num_slots=len(tenants),
                num_sequences_max=settings.sequences_max,
                model_len_max=4096,
            ) as worker:
                account = None if side == FAIR else EVERYBODY
                asker = Asker(worker.agent, clock, workers.base.shape.vocab_size, account=account)
                sharing = _Sharing(asker, clock, routes)
                factor = settings.overload * await sharing.rate(settings.sequences_max)
                squeezed = _squeeze(arrivals, factor, settings.minutes * 60)
                served = await sharing.serve(squeezed)
            rows.append(sharing_row(side, served, squeezed, shape, loud))
            say(f"{name}, {side}: {len(served):,} requests")
        sections.append(Section(title=name, columns=SHARING_COLUMNS, rows=tuple(rows)))
    return tuple(sections)


def _squeeze(arrivals: Sequence[Arrival], tokens_per_s: float, longest_s: float) -> list[Arrival]:
    """Return the requests so close together that they ask for so many tokens a second, for so long at most."""
    began_s, lasts_s = arrivals[0].at_s, arrivals[-1].at_s - arrivals[0].at_s
    scale = sum(each.output_tokens for each in arrivals) / tokens_per_s / lasts_s
    squeezed = [Arrival((a.at_s - began_s) * scale, a.tenant, a.input_tokens, a.output_tokens) for a in arrivals]
    return [arrival for arrival in squeezed if arrival.at_s <= longest_s]


class _Sharing:
    """The clients of one side under one load."""

    def __init__(self, asker: Asker, clock: Clock, routes: Mapping[TenantId, Route]) -> None:
        self._asker = asker
        self._clock = clock
        self._routes = routes
        self._chance = random.Random(0)  # noqa: S311 - not a secret

    async def rate(self, num_sequences: int) -> float:
        """Bring every adapter in, then return the tokens a second of a full engine."""
        for tenant, route in self._routes.items():
            await self._asker.ask(tenant, route, self._prompt(8), new_tokens=1)
        began_s = self._clock.monotonic_s()
        some = list(self._routes.items())[:num_sequences]
        asked = [self._asker.ask(tenant, route, self._prompt(8), new_tokens=64) for tenant, route in some]
        answers = await asyncio.gather(*asked)
        return sum(answer.num_tokens for answer in answers) / (self._clock.monotonic_s() - began_s)

    async def serve(self, arrivals: Sequence[Arrival]) -> list[Served]:
        """Ask as the arrivals say until the last one has come; return what each got by then."""
        served: list[Served] = []
        began_s = self._clock.monotonic_s()
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            for number, arrival in enumerate(arrivals):
                await asyncio.sleep(max(0.0, began_s + arrival.at_s - self._clock.monotonic_s()))
                now_s = self._clock.monotonic_s()
                served.append(Served(RequestId(str(number)), arrival.tenant, arrival.input_tokens, now_s))
                tasks.append(group.create_task(self._ask(arrival, served[-1])))
            for task in tasks:
                task.cancel()
        return served

    async def _ask(self, arrival: Arrival, served: Served) -> None:
        def accepted() -> None:
            served.dispatched_at_s = self._clock.monotonic_s()

        def came(num_tokens: int) -> None:
            now_s = self._clock.monotonic_s()
            served.first_token_at_s = now_s if served.first_token_at_s is None else served.first_token_at_s
            served.token_at_s += [now_s] * num_tokens

        answer = await self._asker.ask(
            arrival.tenant,
            self._routes[arrival.tenant],
            self._prompt(arrival.input_tokens),
            new_tokens=arrival.output_tokens,
            on_accepted=accepted,
            on_tokens=came,
        )
        served.ended_at_s, served.code = self._clock.monotonic_s(), answer.code

    def _prompt(self, num_tokens: int) -> tuple[int, ...]:
        return self._asker.prompt(self._chance, max(1, num_tokens))
