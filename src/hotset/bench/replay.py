"""`hotset bench replay`: how many requests find their adapter in a slot, by policy, on traces and drawn workloads.

Nothing is served: each request is put to each policy, which says whether the adapter was resident and pays a
load where it was not. Between LRU, which knows the past alone, and Belady's optimum, which knows the future,
lies all that a policy can win; a report says how much of that gap each one closes, and what a decision takes.
A worker sees its queue. So every workload is replayed twice: with no queue in sight, each request known only when it is
served, and with one, each request seen so long before it is served as requests wait for their turn.
"""

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotset.bench.procfs import machine_words
from hotset.bench.replay_hotset import KNOWN_MIN
from hotset.bench.replay_policies import POLICIES, PolicyMaker, ReplayPolicy
from hotset.bench.replay_report import Described, Replayed, Shape, build_report, load_name
from hotset.bench.report import Report
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.stats import median, percentile
from hotset.bench.traces import ARENA_FILE, LENGTHS_FILE, RATES_FILE, read_arena, read_lengths, read_rates
from hotset.bench.workloads import LocalityShape, ServegenShape, Workload, arena, locality, servegen
from hotset.core.clock import Clock

#: How long requests wait for their turn at a worker that is busy and keeps up.
SIGHT_S = 1.0
_US = 1e6
_NUM_EMPTY_TIMINGS = 10_000

#: Draws a workload from the randomness of one round.
Draw = Callable[[random.Random], Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to replay, and how often."""

    #: Folder of the trace files; without it the locality mix runs alone.
    traces_folder: Path | None = None
    #: Slots of the worker, one table for each.
    slot_counts: tuple[int, ...] = (8, 16)
    #: How long before it is served a request is seen, where a queue is in sight; 0 leaves that out.
    sight_s: float = SIGHT_S
    #: Rounds; in each, every workload is drawn anew and put to every policy.
    num_seeds: int = 5
    servegen: ServegenShape = field(default_factory=ServegenShape)
    locality: LocalityShape = field(default_factory=LocalityShape)

    @property
    def sights_s(self) -> tuple[float, ...]:
        """The two ways to replay, or the first alone."""
        return (0.0, self.sight_s) if self.sight_s else (0.0,)


def run(
    settings: Settings,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    policies: Mapping[str, PolicyMaker] = POLICIES,
) -> Report:
    """Replay every workload through every policy.

    Args:
        settings: What to replay.
        clock: Times the decisions.
        say: Takes one line of progress at a time.
        policies: Makers by name; LRU and Belady among them.

    Raises:
        ConfigError: a trace file is missing, broken or without traffic in the span.
    """
    setting = {"machine": machine_words(), **settings_words(settings), "timing": _timing_words(clock)}
    draws = draws_of(settings, say)
    described, outcomes = Outcomes[Described](), Outcomes[Replayed]()
    for seed in range(settings.num_seeds):
        for name, draw in draws.items():
            workload = draw(random.Random(f"{name} {seed}"))  # noqa: S311 - requests, not secrets
            described.add(Block(seed, name, ""), describe(workload))
            for num_slots, sight_s in itertools.product(settings.slot_counts, settings.sights_s):
                load = load_name(name, num_slots, sight_s)
                for side, make in policies.items():
                    replayed = replay(workload, make(workload, num_slots, clock), clock, sight_s)
                    outcomes.add(Block(seed, load, side), replayed)
                    say(f"seed {seed + 1} {load} {side}: {replayed.hit_share:.1%} hits")
    shape = Shape(tuple(draws), settings.slot_counts, settings.sights_s, tuple(policies))
    return build_report(setting, shape, described, outcomes)


def draws_of(settings: Settings, say: Callable[[str], None]) -> dict[str, Draw]:
    """Return what draws each workload, by name, in the order of the report.

    Raises:
        ConfigError: a trace file is missing or broken.
    """
    draws: dict[str, Draw] = {}
    if settings.traces_folder is None:
        say("no folder of traces is given: the locality mix runs alone")
    else:
        say(f"reading traces from {settings.traces_folder}")
        raw, damped = (replace(settings.servegen, is_damped=is_damped) for is_damped in (False, True))
        windows = read_rates(settings.traces_folder / RATES_FILE, raw.pools)
        lengths = read_lengths(settings.traces_folder / LENGTHS_FILE)
        fixed = arena(read_arena(settings.traces_folder / ARENA_FILE))
        draws["servegen"] = lambda rng: servegen(windows, raw, rng, lengths)
        draws["servegen-damped"] = lambda rng: servegen(windows, damped, rng, lengths)
        draws["arena-27"] = lambda rng: fixed
    draws["locality"] = lambda rng: locality(settings.locality, rng)
    return draws


def replay(workload: Workload, policy: ReplayPolicy, clock: Clock, sight_s: float = 0.0) -> Replayed:
    """Put every request of a workload to a policy and time each decision.

    Args:
        workload: At least one request.
        policy: Fresh, with empty slots.
        clock: Read before and after each decision; its own cost is in the figures.
        sight_s: How long before it is served each request is shown to the policy; 0 shows none.
    """
    requests, ask, now_s = workload.requests, policy.ask, clock.monotonic_s
    num_hits, num_seen, taken_s = 0, 0, list[float]()
    for request in requests:
        while sight_s and num_seen < len(requests) and requests[num_seen].at_s <= request.at_s + sight_s:
            policy.see(requests[num_seen].at_s - sight_s, requests[num_seen].adapter)
            num_seen += 1
        before_s = now_s()
        is_hit = ask(request.at_s, request.tenant, request.adapter)
        taken_s.append(now_s() - before_s)
        num_hits += is_hit
    decisions_s = policy.decisions_s or taken_s
    return Replayed(
        num_requests=len(taken_s),
        num_hits=num_hits,
        decision_p50_us=percentile(decisions_s, 50) * _US,
        decision_p99_us=percentile(decisions_s, 99) * _US,
        request_p99_us=percentile(taken_s, 99) * _US,
    )


def describe(workload: Workload) -> Described:
    """Return the figures that say what kind of workload it is."""
    return Described(
        num_requests=len(workload.requests),
        num_adapters=workload.num_adapters,
        duration_s=workload.requests[-1].at_s - workload.requests[0].at_s,
        top_shares={count: workload.top_share(count) for count in (1, 8, 16)},
    )


def settings_words(settings: Settings) -> dict[str, str]:
    """Return the settings of a run, as words for its report."""
    shape, mix = settings.servegen, settings.locality
    words = {"rounds": f"{settings.num_seeds}, each with workloads drawn anew, every policy on the same ones"}
    if settings.sight_s:
        words["queue"] = f"in half of the tables each request is in sight {settings.sight_s:g} s before it is served"
    if settings.traces_folder is None:
        words["traces"] = "no folder given: the locality mix alone"
    else:
        words["servegen"] = (
            f"{', '.join(shape.pools)}, {shape.hours:g} h from hour {shape.start_h:g} at {shape.rate:g} requests/s; "
            f"a tenant a client, adapters a tenant: {shape.adapters_per_tenant}"
        )
    words["locality"] = (
        f"{mix.num_requests:,} requests, {mix.repeat_share:.0%} repeat one of the last {mix.num_recent}, "
        f"the rest Zipf({mix.skew:g}) over {mix.num_adapters:,} adapters"
    )
    return words


def _timing_words(clock: Clock) -> str:
    empty: list[float] = []
    for _ in range(_NUM_EMPTY_TIMINGS):
        before_s = clock.monotonic_s()
        empty.append(clock.monotonic_s() - before_s)
    return (
        f"hotset, knowing {KNOWN_MIN:,} adapters or more, decides on each event: 2 in a hit, 4 in a load, 1 more with "
        f"sight; the others once a request; reading the clock is {median(empty) * _US:.2f} µs of it"
    )
