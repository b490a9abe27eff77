"""Reserves that hold with one worker lost pass in silence; those that don't are told with tenant, pool and numbers."""

from hotset.core.fleet import DEFAULT_POOL
from hotset.core.ids import EngineName, TenantId, WorkerId
from hotset.routing.placements import HomeWorker
from hotset.routing.reserves import ReserveGap, find_gaps
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
    return find_gaps(BASE, DEFAULT_POOL, workers, reserves, homes)


def test_a_reserve_with_space_to_spare_passes() -> None:
    assert gaps({ACME: 3}, {ACME: at_home("a", "b", "c")}, THREE) == []


def test_a_tenant_without_reserve_or_without_homes_has_no_gap() -> None:
    assert gaps({ACME: 0, ZED: 4}, {ACME: at_home("a", "a", "a")}, THREE[:1]) == []


def test_a_reserve_that_is_full_everywhere_does_not_survive_a_loss() -> None:
    (gap,) = gaps({ACME: 2}, {ACME: at_home("a", "a", "b", "b", "c", "c")}, THREE)
    assert (gap.num_homes, gap.num_covered, gap.num_workers) == (6, 4, 2)
    assert gap.message == (
        f"Tenant acme, pool default: with {gap.lost} lost, its reserve of 2 slots on each of 2 workers "
        "covers 4 of the 6 homes that it should."
    )


def test_the_worst_loss_is_told() -> None:
    workers = [home_worker("a", num_slots=2), *THREE[1:]]
    (gap,) = gaps({ACME: 4}, {ACME: at_home(*"aabbbbcccc")}, workers)
    assert (gap.lost, gap.num_homes, gap.num_covered) == ("b", 10, 6)


def test_the_last_worker_takes_every_reserve_with_it() -> None:
    (gap,) = gaps({ACME: 2}, {ACME: at_home("a")}, THREE[:1])
    assert (gap.lost, gap.num_covered, gap.num_workers) == ("a", 0, 0)
    assert gap.message == (
        "Tenant acme, pool default: a is the pool's only worker; with it lost, nothing serves this tenant, "
        "whose reserve of 2 slots asks for a second one."
    )


def test_reserves_that_do_not_fit_now_are_told_without_a_loss() -> None:
    (gap,) = gaps({ACME: 6, ZED: 6}, {ACME: at_home("a"), ZED: at_home(*"aaaa")}, [*THREE[:1], home_worker("d")])
    assert (gap.tenant, gap.lost, gap.num_homes, gap.num_covered) == (ZED, None, 4, 2)
    assert "now" in gap.message


def test_a_version_that_is_at_home_everywhere_goes_nowhere() -> None:
    everywhere = {EngineName("hs-1"): (WorkerId("a"), WorkerId("b"))}
    (gap,) = gaps({ACME: 1}, {ACME: everywhere}, THREE[:2])
    assert (gap.num_homes, gap.num_covered) == (2, 1)
