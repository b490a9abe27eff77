"""Where each version is meant to be hot or warm: few homes, that follow its load and move seldom.

A version's ideal homes are the best drawn of the workers that suit it (`rendezvous`), as many as its load takes; a busy
one passes over those that would bear far more than their part of the load (`burdens`).
`plan_homes` brings the homes there in small steps. What can't wait is done at once: the first home of a version, and
another one for each that was lost. The rest is a move: it waits until the version's homes have stood for a while, and
there are only so many a minute, those of the busiest versions first. A version that is in no slot and that nobody asks
for moves freely: it costs a fetch that nobody waits for.

Invariants: a version with a worker that suits it has a home; never more homes than `homes_max`; one whose load one
worker takes gets one. The outcome depends on no order of its inputs. How many homes is `replicas`.

Source: highest random weight, Thaler & Ravishankar 1998.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hotset.core.ids import Digest, PoolName, WorkerId
from hotset.routing.burdens import Burdens
from hotset.routing.placements import Cause, HomesSettings, HomeWorker, Move, Place, Placement, Plan, Wanted
from hotset.routing.rendezvous import rank
from hotset.routing.replicas import count_homes

#: Loads below this are none: so much is left of one request after some minutes.
_LOAD_MIN = 1e-3


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A move that may wait."""

    place: Place
    before: Placement
    homes: tuple[WorkerId, ...]
    cause: Cause
    is_free: bool


@dataclass(frozen=True, slots=True)
class _Choice:
    """What one version may choose from."""

    #: Workers that take it, the best drawn of the lowest fitting rank class first.
    drawn: tuple[WorkerId, ...]
    #: The same, those last that would bear too much with it.
    ranked: tuple[WorkerId, ...]
    num_ideal: int
    num_most: int

    @property
    def ideal(self) -> tuple[WorkerId, ...]:
        """The homes that it should have."""
        return self.ranked[: self.num_ideal]

    def ordered(self, homes: Collection[WorkerId]) -> tuple[WorkerId, ...]:
        """Return these homes, the best drawn first: an order that no load changes."""
        return tuple(worker for worker in self.drawn if worker in homes)


_PoolKey = tuple[Digest, PoolName]
_URGENCY: Mapping[Cause, int] = {"grow": 0, "swap": 1, "shrink": 2}


def plan_homes(
    before: Plan,
    wanted: Iterable[Wanted],
    workers: Iterable[HomeWorker],
    *,
    now_s: float,
    settings: HomesSettings,
) -> tuple[Plan, list[Move]]:
    """Return the next plan, and the moves that lead there.

    Args:
        before: The plan so far; an empty one at first.
        wanted: Every version that may be asked for, by pool.
        workers: Live workers that take new requests.
        now_s: Any clock that goes forward.
        settings: How readily homes follow.
    """
    elapsed_s = 0.0 if before.planned_at_s is None else max(0.0, now_s - before.planned_at_s)
    by_pool = _by_pool(workers)
    placements: dict[Place, Placement] = {}
    moves: list[Move] = []
    proposals: list[_Proposal] = []
    for each, known, burdens in _by_load(before, wanted, by_pool, elapsed_s, settings):
        place = (each.pool, each.version)
        burdens.take(known)
        choice = _choice(known, each, by_pool.get((each.base, each.pool), ()), burdens, settings)
        placements[place] = current = _hold(known, choice, now_s)
        burdens.put(current)
        if set(current.homes) != set(known.homes):
            moves.append(_move(place, "lost" if known.homes else "new", known.homes, current.homes))
        step = _next_step(current.homes, choice)
        if step is not None:
            is_free = each.is_cold and not current.load
            proposals.append(_Proposal(place, current, choice.ordered(step[1]), step[0], is_free))
    budget = _budget(before, elapsed_s, settings)
    for proposal in _made(proposals, budget, now_s, settings):
        moves.append(_move(proposal.place, proposal.cause, proposal.before.homes, proposal.homes))
        placements[proposal.place] = replace(proposal.before, homes=proposal.homes, since_s=now_s)
        budget -= not proposal.is_free
    return Plan(placements, now_s, budget), moves


def _by_load(
    before: Plan,
    wanted: Iterable[Wanted],
    by_pool: Mapping[_PoolKey, Sequence[HomeWorker]],
    elapsed_s: float,
    settings: HomesSettings,
) -> Iterator[tuple[Wanted, Placement, Burdens]]:
    """Yield each version with where it is at home and what its pool's workers bear, the busiest first."""
    known = [
        (each, _weighed(before.placements.get((each.pool, each.version), Placement()), each, elapsed_s, settings))
        for each in wanted
    ]
    placed: dict[_PoolKey, list[Placement]] = {}
    for each, placement in known:
        placed.setdefault((each.base, each.pool), []).append(placement)
    burdens = {key: Burdens(by_pool.get(key, ()), placements, settings) for key, placements in placed.items()}
    for each, placement in sorted(known, key=lambda pair: (-pair[1].load, pair[0].pool, pair[0].version)):
        yield each, placement, burdens[each.base, each.pool]


def _by_pool(workers: Iterable[HomeWorker]) -> dict[_PoolKey, list[HomeWorker]]:
    by_pool: dict[_PoolKey, list[HomeWorker]] = {}
    for worker in workers:
        by_pool.setdefault((worker.base, worker.pool), []).append(worker)
    return by_pool


def _weighed(known: Placement, each: Wanted, elapsed_s: float, settings: HomesSettings) -> Placement:
    """Return the placement with its load brought up to now."""
    part = 1.0 - math.exp(-elapsed_s / settings.smoothing_s)
    load = known.load + (each.num_in_flight - known.load) * part
    return replace(known, load=load if load >= _LOAD_MIN else 0.0)


def _choice(
    known: Placement, each: Wanted, workers: Sequence[HomeWorker], burdens: Burdens, settings: HomesSettings
) -> _Choice:
    """Return the workers that take the version, best first, and how many of which of them it should have."""
    taking = [worker for worker in workers if worker.rank_class >= each.rank]
    drawn = rank(each.version, {worker.worker: worker.num_slots for worker in taking})
    # Slots are as wide as their class: a version goes to the lowest that takes it.
    lowest = min((worker.rank_class for worker in taking), default=0)
    preferred = {worker.worker for worker in taking if worker.rank_class == lowest}
    capacity = settings.share_per_home * min((worker.num_sequences_max for worker in taking), default=1)
    most = min(settings.homes_max, len(preferred))
    count = count_homes(len(known.homes), known.load / capacity, most=most, shrink_at=settings.shrink_at)
    drawn.sort(key=lambda worker: worker not in preferred)
    share = known.load / max(1, count)

    def is_last(worker: WorkerId) -> tuple[bool, bool]:
        return worker not in preferred, burdens.is_full(worker, share, is_home=worker in known.homes)

    return _Choice(tuple(drawn), tuple(sorted(drawn, key=is_last)), num_ideal=count, num_most=most)


def _hold(known: Placement, choice: _Choice, now_s: float) -> Placement:
    """Return the placement with the homes that can't wait: a first one, and one for each that was lost."""
    kept = [worker for worker in known.homes if worker in choice.ranked][: choice.num_most]
    num_held = min(max(1, len(known.homes)), choice.num_most)
    spare = [worker for worker in choice.ranked if worker not in kept]
    homes = choice.ordered({*kept, *spare[: num_held - len(kept)]})
    return replace(known, homes=homes, since_s=known.since_s if set(homes) == set(known.homes) else now_s)


def _next_step(homes: tuple[WorkerId, ...], choice: _Choice) -> tuple[Cause, set[WorkerId]] | None:
    """Return the one step from the present homes towards the ideal ones; None where they are there."""
    better = [worker for worker in choice.ideal if worker not in homes]
    worse = [worker for worker in choice.ranked if worker in homes and worker not in choice.ideal]
    if choice.num_ideal > len(homes):
        return "grow", {*homes, better[0]}
    if choice.num_ideal < len(homes):
        return "shrink", {*homes} - {worse[-1]}
    return ("swap", {*homes, better[0]} - {worse[-1]}) if better else None


def _budget(before: Plan, elapsed_s: float, settings: HomesSettings) -> float:
    if before.planned_at_s is None:
        return settings.moves_per_minute
    return min(settings.moves_per_minute, before.moves_left + elapsed_s * settings.moves_per_minute / 60.0)


def _made(proposals: list[_Proposal], budget: float, now_s: float, settings: HomesSettings) -> list[_Proposal]:
    """Return the moves that are made now: free ones all, the others as far as standing time and budget allow."""
    after_s: Mapping[Cause, float] = {
        "grow": settings.grow_after_s,
        "shrink": settings.shrink_after_s,
        "swap": settings.swap_after_s,
    }
    due = [each for each in proposals if not each.is_free and now_s - each.before.since_s >= after_s[each.cause]]
    due.sort(key=lambda each: (_URGENCY[each.cause], -each.before.load, each.place))
    return [each for each in proposals if each.is_free] + due[: max(0, math.floor(budget))]


def _move(place: Place, cause: Cause, before: tuple[WorkerId, ...], after: tuple[WorkerId, ...]) -> Move:
    added = tuple(worker for worker in after if worker not in before)
    return Move(*place, cause, added, tuple(worker for worker in before if worker not in after))
