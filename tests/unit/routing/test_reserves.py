"""Reserves that hold with one worker lost pass in silence; those that don't are told with tenant, pool and numbers."""

from hotset.core.fleet import DEFAULT_POOL
from hotset.core.ids import EngineName, TenantId, WorkerId
from hotset.routing.placements import HomeWorker
from hotset.routing.reserves import Owed, ReserveGap, find_gaps
from tests.support.fleets import home_worker
from tests.support.snapshots import BASE

ACME, ZED = TenantId("acme"), TenantId("zed")
THREE = [home_worker("a"), home_worker("b"), home_worker("c")]


def at_home(*workers: str) -> dict[EngineName, tuple[WorkerId, ...]]:
    """One version at home on each of these."""
    return {EngineName(f"hs-{number}"): (WorkerId(name),) for number, name in enumerate(workers)}


def gaps(
    reserves: dict[TenantId, int],
    homes: dict[TenantId, dict[EngineName, tuple[WorkerId, ...]]],
    workers: list[HomeWorker],
) -> list[ReserveGap]:
    takes = {version: 1 for of_tenant in homes.values() for version in of_tenant}
    owed = Owed("slots", reserves, {worker.worker: worker.num_slots for worker in workers}, takes)
    return find_gaps(BASE, DEFAULT_POOL, workers, owed, homes)


def test_a_reserve_with_space_to_spare_passes() -> None:
    assert gaps({ACME: 3}, {ACME: at_home("a", "b", "c")}, THREE) == []


def test_a_tenant_without_reserve_or_without_homes_has_no_gap() -> None:
    assert gaps({ACME: 0, ZED: 4}, {ACME: at_home("a", "a", "a")}, THREE[:1]) == []


def test_a_reserve_that_is_full_everywhere_does_not_survive_a_loss() -> None:
    (gap,) = gaps({ACME: 2}, {ACME: at_home("a", "a", "b", "b", "c", "c")}, THREE)
    assert (gap.num_meant, gap.num_covered, gap.num_workers) == (6, 4, 2)
    assert gap.message == (
        f"Tenant acme, pool default: with {gap.lost} lost, its reserve of 2 slots on each of 2 workers "
        "covers 4 of the 6 homes that it should."
    )


def test_the_worst_loss_is_told() -> None:
    workers = [home_worker("a", num_slots=2), *THREE[1:]]
    (gap,) = gaps({ACME: 4}, {ACME: at_home(*"aabbbbcccc")}, workers)
    assert (gap.lost, gap.num_meant, gap.num_covered) == ("b", 10, 6)


def test_the_last_worker_takes_every_reserve_with_it() -> None:
    (gap,) = gaps({ACME: 2}, {ACME: at_home("a")}, THREE[:1])
    assert (gap.lost, gap.num_covered, gap.num_workers) == ("a", 0, 0)
    assert gap.message == (
        "Tenant acme, pool default: a is the pool's only worker; with it lost, nothing serves this tenant, "
        "whose reserve of 2 slots asks for a second one."
    )


def test_reserves_that_do_not_fit_now_are_told_without_a_loss() -> None:
    (gap,) = gaps({ACME: 6, ZED: 6}, {ACME: at_home("a"), ZED: at_home(*"aaaa")}, [*THREE[:1], home_worker("d")])
    assert (gap.tenant, gap.lost, gap.num_meant, gap.num_covered) == (ZED, None, 4, 2)
    assert "now" in gap.message


def test_a_version_that_is_at_home_everywhere_goes_nowhere() -> None:
    everywhere = {EngineName("hs-1"): (WorkerId("a"), WorkerId("b"))}
    (gap,) = gaps({ACME: 1}, {ACME: everywhere}, THREE[:2])
    assert (gap.num_meant, gap.num_covered) == (2, 1)


def test_files_beyond_the_bytes_that_are_owed_where_they_go_do_not_survive_a_loss() -> None:
    homes = {ACME: at_home("a", "b", "b")}
    owed = Owed(
        "bytes", {ACME: 1000}, dict.fromkeys(map(WorkerId, "ab")), dict(zip(homes[ACME], (600, 300, 200), strict=True))
    )
    (gap,) = find_gaps(BASE, DEFAULT_POOL, THREE[:2], owed, homes)
    assert (gap.num_meant, gap.num_covered) == (1100, 1000)
    assert gap.message == (
        f"Tenant acme, pool default: with {gap.lost} lost, its reserve of 1,000 bytes on each of 1 workers "
        "covers 1,000 of the 1,100 bytes of files at home that it should."
    )


def test_bytes_that_a_small_store_can_not_owe_are_told_without_a_loss() -> None:
    homes = {ACME: at_home("a"), ZED: at_home("a")}
    takes = dict.fromkeys(homes[ACME], 500)
    for there, gaps_then in ((1000, 0), (700, 1), (None, 0)):
        owed = Owed("bytes", {ACME: 500, ZED: 500}, dict.fromkeys(map(WorkerId, "ab"), there), takes)
        found = [gap for gap in find_gaps(BASE, DEFAULT_POOL, THREE[:2], owed, homes) if gap.lost is None]
        assert [(gap.tenant, gap.num_meant, gap.num_covered) for gap in found] == [(ZED, 500, 200)] * gaps_then
