"""What a snapshot says to one worker of the versions that are at home there."""

from dataclasses import replace

from hotset.core.ids import Digest, WorkerId, engine_name
from hotset.core.versions import Manifest, VersionRecord
from hotset.routing.standing import homes_at
from tests.support.fleets import entry_of, fleet_snapshot, version_route
from tests.support.snapshots import BASE

W1, W2 = WorkerId("w1"), WorkerId("w2")
ROUTES = [version_route(index) for index in range(4)]


def test_busy_versions_come_first_then_those_whose_likeliest_home_it_is() -> None:
    homes = {ROUTES[0]: ("w2",), ROUTES[1]: ("w2", "w1"), ROUTES[2]: ("w1",), ROUTES[3]: ("w1", "w2")}
    snapshot = fleet_snapshot([entry_of("w1"), entry_of("w2")], ROUTES, homes)
    records = {
        engine_name(route): VersionRecord(
            owner="acme",
            name=route.adapter.name,
            number=1,
            base=BASE,
            digest=route.digest,
            manifest=Manifest(files=(), modules=(), rank_max=8),
        )
        for route in ROUTES
        if route.adapter
    }
    snapshot = replace(snapshot, versions=records)  # pyright: ignore[reportArgumentType]
    found = homes_at(snapshot, W1, BASE)
    assert [each.name for each in found] == [engine_name(ROUTES[index]) for index in (3, 1, 2)]
    assert [each.is_busy for each in found] == [True, True, False]
    assert {each.owner for each in found} == {"acme"}
    assert len(homes_at(snapshot, W2, BASE)) == 3
    assert homes_at(snapshot, W1, Digest("sha256:other")) == ()
    assert homes_at(snapshot, None, BASE) == ()
    assert homes_at(replace(snapshot, versions={}), W1, BASE) == ()
