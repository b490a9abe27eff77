"""Which worker a request goes to: filter, score, pick, by what the agents last said and who was sent there since.

Filter: workers of the tenant's own pool over the route's base that live, take new requests and take the version's
rank; of these, the version's homes. Where no home is left, the worker that the version would be given next: every
gateway finds the same one, so a version does not spill over the fleet while control is slow to answer.
Score: seconds until the request would run. A resident version waits for nothing, a warm one for its load, a cold one
for a longer one, and longer still where something has to leave for it; then comes who waits there already. Old news
counts as if it had gone worse since. Ties go by the draw of version and worker (`rendezvous`), then by id.

Invariants: a request never leaves its tenant's pool; the outcome depends on no order of the inputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hotset.core.fleet import Heartbeat, WorkerEntry
from hotset.core.ids import EngineName, Route, TenantId, WorkerId, engine_name
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.rendezvous import rank


@dataclass(frozen=True, slots=True)
class PickSettings:
    """What an unmeasured wait is taken for, and how long news is believed. Seconds."""

    #: A heartbeat up to this old is taken at its word; from `lost_after_s` the worker is held for lost.
    fresh_s: float = 3.0
    lost_after_s: float = 15.0
    #: Loads, until the worker has measured one.
    warm_load_s: float = 0.5
    cold_load_s: float = 5.0
    #: What it costs that another version has to leave first.
    eviction_s: float = 1.0
    #: What a full batch costs; half a full one costs half of it.
    crowd_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a gateway knows of one worker."""

    heartbeat: Heartbeat
    #: Seconds since it was heard.
    age_s: float
    #: Requests that this gateway has sent there since, and that have not ended.
    num_sent: int = 0


DEFAULT_PICK = PickSettings()


def pick(
    snapshot: RoutingSnapshot,
    tenant: TenantId,
    route: Route,
    sights: Mapping[WorkerId, Sight],
    settings: PickSettings = DEFAULT_PICK,
) -> tuple[WorkerId, ...]:
    """Return the workers that the request may go to, the best first; none where nobody serves it now.

    Args:
        snapshot: The state that the route was resolved in.
        tenant: Who asks.
        route: What for.
        sights: What is known of each worker; one that was never heard is not picked.
        settings: What an unmeasured wait is taken for.
    """
    version = engine_name(route)
    able = [
        worker
        for worker, entry in snapshot.workers.items()
        if _takes(snapshot, tenant, route, entry) and _lives(entry, sights.get(worker), settings)
    ]
    draws = rank(version or route.base, {worker: snapshot.workers[worker].facts.num_slots for worker in able})
    seconds = {
        worker: _seconds(version, snapshot.workers[worker], sights[worker], settings)
        for worker in _at_home(snapshot, version, draws)
    }
    return tuple(sorted(seconds, key=lambda worker: (seconds[worker], draws.index(worker))))


def _takes(snapshot: RoutingSnapshot, tenant: TenantId, route: Route, entry: WorkerEntry) -> bool:
    """Whether requests of this tenant and route may go to the worker at all."""
    facts = entry.facts
    if facts.base != route.base or entry.state != "serving" or entry.pool != snapshot.pool_of(tenant, route.base):
        return False
    version = engine_name(route)
    if version is None:
        return True
    record = snapshot.versions.get(version)
    return record is not None and record.manifest.rank_max <= facts.rank_class and facts.num_slots > 0


def _lives(entry: WorkerEntry, sight: Sight | None, settings: PickSettings) -> bool:
    if sight is None or sight.age_s >= settings.lost_after_s:
        return False
    heartbeat = sight.heartbeat
    return heartbeat.is_ready and not heartbeat.is_leaving and heartbeat.fence >= entry.fence


def _at_home(snapshot: RoutingSnapshot, version: EngineName | None, draws: list[WorkerId]) -> list[WorkerId]:
    """Return the homes among these workers, which are in the order of their draws; for the bare base all of them."""
    if version is None:
        return draws
    homes = snapshot.homes.get(version, ())
    return [worker for worker in draws if worker in homes] or _next_home(snapshot, draws)


def _next_home(snapshot: RoutingSnapshot, draws: list[WorkerId]) -> list[WorkerId]:
    """Return the one that the version would be given now: the best drawn of the lowest rank class."""
    lowest = min((snapshot.workers[worker].facts.rank_class for worker in draws), default=0)
    return [worker for worker in draws if snapshot.workers[worker].facts.rank_class == lowest][:1]


def _seconds(version: EngineName | None, entry: WorkerEntry, sight: Sight, settings: PickSettings) -> float:
    """Return how long the request would probably wait there before it runs."""
    heartbeat = sight.heartbeat
    worst_s = (heartbeat.cold_load_s or settings.cold_load_s) + settings.eviction_s
    load_s = _load_s(version, heartbeat, settings)
    num_there = heartbeat.num_running + heartbeat.num_waiting + sight.num_sent
    crowd_s = settings.crowd_s * num_there / max(1, entry.facts.num_sequences_max)
    doubt = max(0.0, sight.age_s - settings.fresh_s) / max(settings.lost_after_s - settings.fresh_s, 1e-9)
    return load_s + doubt * (worst_s - load_s + settings.crowd_s) + crowd_s + heartbeat.oldest_wait_s


def _load_s(version: EngineName | None, heartbeat: Heartbeat, settings: PickSettings) -> float:
    """Return what is left to do before the version serves there."""
    if version is None or version in heartbeat.resident:
        return 0.0
    warm_s = heartbeat.warm_load_s or settings.warm_load_s
    if version in heartbeat.loading:
        return warm_s / 2
    cold_s = heartbeat.cold_load_s or settings.cold_load_s
    room_s = 0.0 if heartbeat.num_free_slots else settings.eviction_s
    return room_s + (warm_s if version in heartbeat.warm else cold_s)
