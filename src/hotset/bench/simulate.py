"""`hotset bench simulate`: fleets in virtual time, with faults; the rules that always hold, checked after every event.

Nothing is compared: a seed is clean, or it is shown with the rule that broke, the event, the last events before it and
its faults, so that it can be run again.
"""

import contextlib
import itertools
import math
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

from hotset.bench.procfs import machine_words
from hotset.bench.report import Column, Report, Row, Section
from hotset.bench.stats import spread
from hotset.core.clock import Clock
from hotset.planner.simulate import Verdict, cut_plan, run_seed

_COLUMNS = (
    Column(key="seeds", heading="seeds", unit="run"),
    Column(key="clean", heading="clean", unit="of them"),
    Column(key="events", heading="events", unit="all seeds"),
    Column(key="fewest", heading="fewest events", unit="of a clean seed"),
    Column(key="rate", heading="events/s", unit="checks included"),
    Column(key="virtual_s", heading="virtual time", unit="s"),
    Column(key="faults", heading="faults", unit="planned"),
    Column(key="requests", heading="requests", unit="ended"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which seeds to run, and how far."""

    seeds: range = range(20)
    #: Of each seed, before its fleet is let come to rest.
    num_events: int = 5000
    #: No further seed is begun after so many seconds; None runs them all.
    longest_s: float | None = None
    #: Show the last events of a clean seed, too.
    with_story: bool = False
    #: Look for the fewest faults that still break the rule.
    with_cut_plan: bool = False
    #: Begin no further seed once one broke a rule.
    stops_at_first: bool = False
    #: Processes that run seeds at a time; what a seed comes to is the same in each.
    num_processes: int = 1


def run(settings: Settings, clock: Clock, say: Callable[[str], None] = lambda _: None) -> tuple[Report, bool]:
    """Run the seeds and return the report, and whether all were clean.

    Args:
        settings: What to run.
        clock: Times the run.
        say: Takes one line of progress at a time.
    """
    began_s, verdicts, stories = clock.monotonic_s(), list[Verdict](), list[str]()
    with contextlib.closing(_run_seeds(settings, clock)) as runs:
        for verdict in runs:
            verdicts.append(verdict)
            if not verdict.is_clean or settings.with_story:
                stories.append(story(verdict, settings))
                say(f"seed {verdict.seed}: {verdict.message or 'clean'}")
            elif verdict.seed % 20 == 19:
                say(f"{len(verdicts)} seeds, {sum(each.is_clean for each in verdicts)} clean")
            if settings.stops_at_first and not verdict.is_clean:
                break
    seconds = max(clock.monotonic_s() - began_s, 1e-9)
    report = Report(
        bench="simulate",
        setting={
            "machine": machine_words(),
            "seeds": f"{settings.seeds.start} to {settings.seeds.stop - 1}, {len(verdicts)} run in {seconds:.1f} s, "
            f"{settings.num_processes} at a time",
            "events": f"{settings.num_events:,} a seed, then rest without faults until every request has ended",
        },
        sections=(Section(title="rules", columns=_COLUMNS, rows=(_row(verdicts, seconds),)),),
        notes=(_endings(verdicts),),
        appendix="\n\n".join(stories),
    )
    return report, all(verdict.is_clean for verdict in verdicts)


def _run_seeds(settings: Settings, clock: Clock) -> Generator[Verdict, None, None]:
    """Yield the verdicts in the order of their seeds, whatever the number of processes and whichever is the fastest."""
    until_s = math.inf if settings.longest_s is None else clock.monotonic_s() + settings.longest_s
    begun = itertools.takewhile(lambda _: clock.monotonic_s() < until_s, settings.seeds)
    if settings.num_processes == 1:
        yield from (run_seed(seed, settings.num_events) for seed in begun)
        return
    # Processes of their own from the start, not copies of this one with its threads.
    pool = ProcessPoolExecutor(settings.num_processes, mp_context=multiprocessing.get_context("spawn"))
    try:
        running: deque[Future[Verdict]] = deque()
        for seed in begun:
            running.append(pool.submit(run_seed, seed, settings.num_events))
            if len(running) > 2 * settings.num_processes:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def story(verdict: Verdict, settings: Settings) -> str:
    """Return what there is to know of one seed, as text."""
    lines = [f"seed {verdict.seed}: {'every rule held' if verdict.is_clean else f'broken: {verdict.rule}'}"]
    if not verdict.is_clean:
        lines += [
            f"  {verdict.message}",
            f"  at event {verdict.num_events}, {verdict.lasted_s:.3f} virtual s",
            f"  again: hotset bench simulate --seed {verdict.seed} --events {settings.num_events}",
        ]
    lines += ["  last events:", *(f"    {line}" for line in verdict.last)]
    plan = [fault for fault in verdict.plan if fault.at_s <= verdict.lasted_s]
    if not verdict.is_clean and settings.with_cut_plan:
        plan = cut_plan(verdict, settings.num_events)
        lines.append("  the fewest faults found that break the same rule:")
    else:
        lines.append("  faults until then:")
    lines += [f"    {fault}" for fault in plan] or ["    none"]
    lines.append(f"  log digest {verdict.digest}")
    return "\n".join(lines)


def _row(verdicts: list[Verdict], seconds: float) -> Row:
    events = sum(verdict.num_events for verdict in verdicts)
    figures = {
        "seeds": float(len(verdicts)),
        "clean": float(sum(verdict.is_clean for verdict in verdicts)),
        "events": float(events),
        "fewest": float(min((verdict.num_events for verdict in verdicts if verdict.is_clean), default=0)),
        "rate": events / seconds,
        "virtual_s": sum(verdict.lasted_s for verdict in verdicts),
        "faults": float(sum(fault.at_s <= verdict.lasted_s for verdict in verdicts for fault in verdict.plan)),
        "requests": float(sum(sum(verdict.endings.values()) for verdict in verdicts)),
    }
    return Row(side="fleets", figures={key: spread([value]) for key, value in figures.items()})


def _endings(verdicts: list[Verdict]) -> str:
    endings = Counter[str]()
    for verdict in verdicts:
        endings.update(verdict.endings)
    return "requests: " + ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common())
