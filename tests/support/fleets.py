"""Fleets for tests: workers, what is wanted of them, and snapshots of both."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hotset.core.fleet import DEFAULT_POOL, Heartbeat, WorkerEntry, WorkerFacts, WorkerState
from hotset.core.ids import EngineName, PoolName, Route, WorkerId, engine_name
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.pick import Sight
from hotset.routing.placements import HomeWorker, Wanted
from tests.support.snapshots import BASE, adapter_route, alias_entry, snapshot_of


def facts_of(name: str, *, rank_class: int = 16, num_slots: int = 8, num_sequences_max: int = 16) -> WorkerFacts:
    """What a worker of the one base says of itself."""
    return WorkerFacts(
        worker=WorkerId(name),
        base=BASE,
        rank_class=rank_class,
        num_slots=num_slots,
        hardware_class="cpu",
        engine="instant 0.1.0",
        num_sequences_max=num_sequences_max,
    )


def entry_of(
    name: str, *, pool: str = DEFAULT_POOL, state: WorkerState = "serving", fence: int = 1, rank_class: int = 16
) -> WorkerEntry:
    """A worker in a snapshot."""
    return WorkerEntry(facts=facts_of(name, rank_class=rank_class), pool=PoolName(pool), state=state, fence=fence)


def home_worker(name: str, *, pool: str = DEFAULT_POOL, rank_class: int = 16, num_slots: int = 8) -> HomeWorker:
    """A worker that may be a home."""
    return HomeWorker(WorkerId(name), BASE, PoolName(pool), rank_class, num_slots, num_sequences_max=16)


def wanted(name: str, *, pool: str = DEFAULT_POOL, rank: int = 8, num_in_flight: int = 0, cold: bool = False) -> Wanted:
    """A version that may be asked for."""
    return Wanted(PoolName(pool), EngineName(name), BASE, rank, num_in_flight, cold)


def version_route(index: int) -> Route:
    """The route to one of many adapters of one owner."""
    return adapter_route("acme", f"adapter-{index}")


def fleet_snapshot(
    entries: Iterable[WorkerEntry], routes: Iterable[Route], homes: Mapping[Route, Iterable[str]] | None = None
) -> RoutingSnapshot:
    """A snapshot with these workers, these versions of acme and where they are at home."""
    aliases = {
        ("acme", route.adapter.name): alias_entry(route.adapter.name, route) for route in routes if route.adapter
    }
    return replace(
        snapshot_of(aliases),
        workers={entry.facts.worker: entry for entry in entries},
        homes={engine_name(route) or "": tuple(map(WorkerId, names)) for route, names in (homes or {}).items()},
    )


def sight_of(name: str, *, age_s: float = 0.5, num_sent: int = 0, **told: object) -> Sight:
    """What is known of a worker whose engine serves; `told` are fields of its heartbeat."""
    beat = {"worker": name, "fence": 1, "number": 1, "is_ready": True, "num_free_slots": 1, **told}
    return Sight(Heartbeat(**beat), age_s, num_sent)  # pyright: ignore[reportArgumentType]
