"""The words of planning homes: what is wanted, who may be a home, the plan, its moves; and what is published of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hotset.core.ids import Digest, EngineName, PoolName, WorkerId

Cause = Literal["new", "lost", "grow", "shrink", "swap"]
#: One version in one pool.
Place = tuple[PoolName, EngineName]


@dataclass(frozen=True, slots=True)
class HomesSettings:
    """How readily the homes of versions in a fleet follow the load."""

    #: Homes of one version in one pool at most.
    homes_max: int = 8
    #: The part of an engine's sequences that one version may fill before it gets another home.
    share_per_home: float = 0.5
    #: A home is given up where the others would be filled to less than this part of that.
    shrink_at: float = 0.6
    #: A busy version comes to a worker that bears no more than this many times its part of the pool's load with it.
    take_over: float = 1.2
    #: It stays at one that bears no more than this many times its part.
    keep_over: float = 1.6
    #: Requests that wait or run, from which on a version is busy for that.
    share_min: float = 0.5
    #: Time constant of a version's load, in seconds.
    smoothing_s: float = 15.0
    #: How long a version's homes stand before one is added, in seconds.
    grow_after_s: float = 5.0
    #: How long before one is given up.
    shrink_after_s: float = 120.0
    #: How long before one is exchanged for a better one.
    swap_after_s: float = 60.0
    #: Such changes of all versions together.
    moves_per_minute: float = 30.0


#: Setting → (least, greatest).
BOUNDS: dict[str, tuple[float, float]] = {
    "homes_max": (1, 1024),
    "share_per_home": (0.01, 100.0),
    "shrink_at": (0.0, 1.0),
    "take_over": (1.0, 1000.0),
    "keep_over": (1.0, 1000.0),
    "share_min": (0.0, 10_000.0),
    "smoothing_s": (0.1, 3600.0),
    "grow_after_s": (0.0, 3600.0),
    "shrink_after_s": (0.0, 86_400.0),
    "swap_after_s": (0.0, 86_400.0),
    "moves_per_minute": (0.0, 60_000.0),
}


@dataclass(frozen=True, slots=True)
class HomeWorker:
    """A live worker that may be a home."""

    worker: WorkerId
    base: Digest
    pool: PoolName
    rank_class: int
    num_slots: int
    #: Sequences in one step of its engine.
    num_sequences_max: int = 1
    #: Bytes of version files that its local store keeps; None where it does not say.
    store_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A version that tenants of a pool may ask for."""

    pool: PoolName
    version: EngineName
    base: Digest
    rank: int
    #: Its requests that wait or run in the pool at this moment.
    num_in_flight: int = 0
    #: It is in no slot: to move it costs a fetch that nobody waits for.
    is_cold: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one version is at home in one pool."""

    homes: tuple[WorkerId, ...] = ()
    #: Requests that wait or run, smoothed.
    load: float = 0.0
    #: When its homes last changed.
    since_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class Plan:
    """All homes at one moment."""

    placements: Mapping[Place, Placement] = field(default_factory=dict[Place, Placement])
    planned_at_s: float | None = None
    #: Moves that may be made now.
    moves_left: float = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """A change of one version's homes."""

    pool: PoolName
    version: EngineName
    cause: Cause
    added: tuple[WorkerId, ...]
    removed: tuple[WorkerId, ...]


def published(plan: Plan) -> dict[EngineName, tuple[WorkerId, ...]]:
    """Return the homes as the snapshot has them: those of all pools together, by version."""
    homes: dict[EngineName, tuple[WorkerId, ...]] = {}
    for (_, version), placement in sorted(plan.placements.items()):
        if placement.homes:
            homes[version] = (*homes.get(version, ()), *placement.homes)
    return homes


def resumed(homes: Mapping[EngineName, Sequence[WorkerId]], pools: Mapping[WorkerId, PoolName], now_s: float) -> Plan:
    """Return the plan that was published as `homes`, for a planner that starts anew."""
    placements: dict[Place, Placement] = {}
    for version, workers in sorted(homes.items()):
        for pool in sorted({pools[worker] for worker in workers if worker in pools}):
            there = tuple(worker for worker in workers if pools.get(worker) == pool)
            placements[(pool, version)] = Placement(there, since_s=now_s)
    return Plan(placements, now_s)
