"""A small model of a fleet to try homes and pick on: workers that keep the versions used last, and a skewed demand.

Time goes by seconds. In each, requests of a Poisson process per adapter arrive, are sent where `pick` says, and run for
some seconds. Each worker keeps as many versions as it has slots, the ones used last. What a worker says is from the
second before, so gateways decide on old news as they do in a real fleet.
"""

import math
import random
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from hotset.core.fleet import Heartbeat
from hotset.core.ids import EngineName, WorkerId, engine_name
from hotset.routing.homes import plan_homes
from hotset.routing.pick import Sight, pick
from hotset.routing.placements import HomesSettings, HomeWorker, Move, Plan, Wanted, published
from tests.support.fleets import entry_of, fleet_snapshot, home_worker, version_route
from tests.support.snapshots import ACME

ROUTES = [version_route(number) for number in range(40)]
NAMES: list[EngineName] = [name for route in ROUTES if (name := engine_name(route)) is not None]


def skewed_rates(total: float, rng: random.Random) -> list[float]:
    """Requests a second by adapter: few are asked for most of the time, most of them seldom.

    A handful have nine tenths of all requests, as ServeGen (arXiv 2505.09999) found of clients; the rest is a long
    tail. Which adapter is which is drawn.
    """
    weights = [1.0 / (place + 1) ** 1.6 for place in range(len(ROUTES))]
    rng.shuffle(weights)
    return [total * weight / sum(weights) for weight in weights]


@dataclass
class ModelWorker:
    """One worker: its versions, the latest used last, and when its requests end."""

    num_slots: int = 8
    versions: OrderedDict[EngineName, None] = field(default_factory=OrderedDict)
    ends_s: list[tuple[float, EngineName]] = field(default_factory=list)

    def take(self, name: EngineName, until_s: float) -> bool:
        """Run one more request; whether its version was in a slot."""
        was_there = name in self.versions
        self.versions[name] = None
        self.versions.move_to_end(name)
        if len(self.versions) > self.num_slots:
            self.versions.popitem(last=False)
        self.ends_s.append((until_s, name))
        return was_there

    def heartbeat(self, worker: WorkerId, now_s: float) -> Heartbeat:
        self.ends_s = [each for each in self.ends_s if each[0] > now_s]
        return Heartbeat(
            worker=worker,
            fence=1,
            number=int(now_s) + 1,
            is_ready=True,
            num_free_slots=self.num_slots - len(self.versions),
            resident=tuple(self.versions),
            num_running=len(self.ends_s),
            in_flight=dict(Counter(name for _, name in self.ends_s)),
        )


@dataclass
class Phase:
    """What came of some minutes with the same workers."""

    moves: list[Move] = field(default_factory=list)
    num_resident: int = 0
    by_worker: Counter[WorkerId] = field(default_factory=Counter)
    num_by_version_and_worker: Counter[tuple[EngineName, WorkerId]] = field(default_factory=Counter)

    @property
    def num_requests(self) -> int:
        return self.by_worker.total()

    @property
    def share_resident(self) -> float:
        return self.num_resident / self.num_requests

    @property
    def spread(self) -> float:
        """The busiest worker's requests over those of the mean one."""
        return max(self.by_worker.values()) * len(self.by_worker) / self.num_requests

    @property
    def spread_min(self) -> float:
        """What it would be at least, with the busiest version on one worker alone."""
        by_version = Counter[EngineName]()
        for (name, _), count in self.num_by_version_and_worker.items():
            by_version[name] += count
        return max(1.0, max(by_version.values()) * len(self.by_worker) / self.num_requests)


class ModelFleet:
    """Workers, the homes planned for them, and what was asked so far."""

    def __init__(self, *, seed: int, requests_per_s: float = 8.0) -> None:
        self.rng = random.Random(seed)
        self.rates = skewed_rates(requests_per_s, self.rng)
        self.plan = Plan()
        self.now_s = 0.0
        self.workers: dict[WorkerId, ModelWorker] = {}

    def run(self, names: str, *, seconds: int, rules: HomesSettings | None = None, random_pick: bool = False) -> Phase:
        """Let time go by with these workers; those that were not there come empty."""
        self.workers = {WorkerId(name): self.workers.get(WorkerId(name), ModelWorker()) for name in names}
        phase, able = Phase(by_worker=Counter(dict.fromkeys(self.workers, 0))), [home_worker(name) for name in names]
        for _ in range(seconds):
            self.now_s += 1.0
            beats = {worker: each.heartbeat(worker, self.now_s) for worker, each in self.workers.items()}
            if int(self.now_s) % 2 == 0 or not self.plan.placements:
                self._plan(able, beats, rules or HomesSettings(), phase)
            self._serve(beats, phase, random_pick=random_pick)
        return phase

    def _plan(
        self, able: list[HomeWorker], beats: dict[WorkerId, Heartbeat], rules: HomesSettings, phase: Phase
    ) -> None:
        held = {name for beat in beats.values() for name in beat.resident}
        in_flight = Counter[EngineName]()
        for beat in beats.values():
            in_flight.update(beat.in_flight)
        base, pool = able[0].base, able[0].pool
        asked = [Wanted(pool, name, base, 8, in_flight[name], name not in held) for name in NAMES]
        self.plan, moves = plan_homes(self.plan, asked, able, now_s=self.now_s, settings=rules)
        phase.moves += moves

    def _serve(self, beats: dict[WorkerId, Heartbeat], phase: Phase, *, random_pick: bool) -> None:
        snapshot = fleet_snapshot(map(entry_of, self.workers), ROUTES)
        object.__setattr__(snapshot, "homes", published(self.plan))
        num_sent = Counter[WorkerId]()
        for route, name, rate in zip(ROUTES, NAMES, self.rates, strict=True):
            for _ in range(poisson(rate, self.rng)):
                sights = {worker: Sight(beat, 1.0, num_sent[worker]) for worker, beat in beats.items()}
                picked = pick(snapshot, ACME, route, sights)[0]
                if random_pick:
                    picked = self.rng.choice(sorted(self.workers))
                num_sent[picked] += 1
                phase.num_resident += self.workers[picked].take(name, self.now_s + self.rng.expovariate(1 / 2.0))
                phase.by_worker[picked] += 1
                phase.num_by_version_and_worker[name, picked] += 1


def poisson(mean: float, rng: random.Random) -> int:
    """Draw how many come in a second (Knuth)."""
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
