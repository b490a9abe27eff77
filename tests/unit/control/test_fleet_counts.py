"""What is counted of a fleet: moves by cause, versions without a home and for how long."""

from dataclasses import replace

from hotset.control.fleet_counts import FleetCounts
from hotset.core.fleet import DEFAULT_POOL
from hotset.core.ids import EngineName, WorkerId, engine_name
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import Manifest, VersionRecord
from hotset.routing.placements import Move
from tests.support.fleets import version_route

A, W = EngineName("a"), WorkerId("w")


def snapshot(*numbers: int, homes: tuple[int, ...] = ()) -> RoutingSnapshot:
    names = {number: engine_name(version_route(number)) or A for number in numbers}
    versions = {
        name: VersionRecord(
            owner="acme",
            name=f"adapter-{number}",
            number=1,
            base=version_route(number).base,
            digest=version_route(number).digest or version_route(number).base,
            manifest=Manifest(files=(), modules=(), rank_max=4),
        )
        for number, name in names.items()
    }
    return replace(RoutingSnapshot(), versions=versions, homes={names[number]: (W,) for number in homes})


def test_moves_are_counted_by_cause() -> None:
    counts = FleetCounts()
    counts.moved([Move(DEFAULT_POOL, A, cause, (W,), ()) for cause in ("new", "lost", "new")])
    counts.moved([])
    assert dict(counts.moves) == {"new": 2, "lost": 1}


def test_a_gap_lasts_from_the_reconcile_that_sees_it_to_the_one_that_ends_it() -> None:
    counts = FleetCounts()
    counts.published(snapshot(1, 2, homes=(1,)), 10.0)
    counts.published(snapshot(1, 2, homes=(1,)), 12.0)
    assert (counts.num_homeless, counts.num_gaps, counts.gap_seconds(13.0)) == (1, 1, 3.0)
    counts.published(snapshot(1, 2, homes=(1, 2)), 14.0)
    assert (counts.num_homeless, counts.num_gaps, counts.gap_seconds(20.0)) == (0, 1, 4.0)
    counts.published(snapshot(1, 2), 21.0)
    counts.published(snapshot(1, homes=(1,)), 22.0)  # a version that is withdrawn has no gap any more
    assert (counts.num_homeless, counts.num_gaps, counts.gap_seconds(30.0)) == (0, 3, 6.0)
