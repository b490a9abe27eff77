"""Loads take no more of a worker's time than they may, and whoever is owed a slot finds what it needs."""

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import (
    Effect,
    Load,
    Loaded,
    Permitted,
    Quotas,
    Refuse,
    Released,
    Requested,
    TimePassed,
    Unloaded,
)
from hotset.residency.residency import Residency
from hotset.residency.stall import StallBudget

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
NAMES = [EngineName(f"hs-{number}") for number in range(9)]


def test_a_full_bucket_holds_ten_seconds_worth_and_a_load_takes_what_it_took() -> None:
    budget = StallBudget(100.0)
    assert budget.left_s(50.0) == 1.0
    budget.spent(0.4, 50.0)
    assert budget.left_s(50.0) == pytest.approx(0.6)
    assert budget.left_s(52.0) == pytest.approx(0.8)
    assert budget.left_s(99.0) == 1.0


def test_an_owed_load_waits_until_the_debt_is_paid_and_a_borrowed_one_until_another_is_paid_for() -> None:
    budget = StallBudget(100.0)
    budget.spent(0.4, 0.0)
    budget.spent(0.4, 0.0)
    budget.spent(0.4, 0.0)  # 0.2 s more than there was
    assert budget.seconds_to_next(0.0, num_under_way=0, is_owed=True) == pytest.approx(2.0)
    assert budget.seconds_to_next(0.0, num_under_way=0, is_owed=False) == pytest.approx(6.0)
    assert budget.seconds_to_next(2.0, num_under_way=0, is_owed=True) == 0.0
    assert budget.seconds_to_next(6.0, num_under_way=0, is_owed=False) == 0.0


def test_a_load_under_way_counts_as_the_last_ones_did() -> None:
    budget = StallBudget(100.0)
    assert budget.seconds_to_next(0.0, num_under_way=8, is_owed=False) == 0.0  # none was measured
    budget.spent(0.4, 0.0)
    assert budget.seconds_to_next(0.0, num_under_way=1, is_owed=True) == 0.0
    assert budget.seconds_to_next(0.0, num_under_way=2, is_owed=True) == pytest.approx(2.0)


def test_it_lasts_for_some_loads_where_none_of_them_would_have_to_wait() -> None:
    budget = StallBudget(100.0)
    budget.spent(0.2, 0.0)
    assert budget.lasts(3, 0.0)
    assert not budget.lasts(4, 0.0)


def test_a_bucket_smaller_than_a_load_still_lets_borrowed_ones_begin() -> None:
    budget = StallBudget(10.0)  # 0.1 s at most
    budget.spent(5.0, 0.0)
    assert budget.seconds_to_next(0.0, num_under_way=0, is_owed=False) == pytest.approx(495.0)
    assert budget.seconds_to_next(495.0, num_under_way=0, is_owed=False) == 0.0


def loaded(residency: Residency, slot: int, name: EngineName, now_s: float, *, stall_s: float) -> list[Effect]:
    return residency.handle(Loaded(slot, name, 1, 1.0, stall_s=stall_s), now_s)


def spent_worker() -> Residency:
    """Two slots that GLOBEX filled, idle, at 0; the last load took all of the budget and a second more."""
    residency = Residency(num_slots=2, warm_bytes_max=100, stall_ms_per_s=100.0)
    residency.handle(Permitted(frozenset(NAMES)), 0.0)
    residency.handle(Quotas({GLOBEX: Quota(limit_slots=2), ACME: Quota(reserve_slots=1)}), 0.0)
    for slot, stall_s in ((0, 0.5), (1, 1.5)):
        residency.handle(Requested(RequestId(f"g{slot}"), NAMES[slot], GLOBEX), 0.0)
        loaded(residency, slot, NAMES[slot], 0.0, stall_s=stall_s)
        residency.handle(Released(RequestId(f"g{slot}")), 0.0)
    return residency


def test_a_load_that_would_stall_too_much_may_wait_and_is_told_for_how_long() -> None:
    residency = spent_worker()
    requested = Requested(RequestId("g2"), NAMES[2], GLOBEX)
    decision = residency.decide(requested, 0.0)
    assert (decision.may_wait, decision.room) == (True, ())
    # A second of debt, and half the bucket as long as a load takes more.
    assert decision.again_in_s == pytest.approx(15.0)
    (refused,) = residency.handle(requested, 0.0)
    assert isinstance(refused, Refuse)
    assert (refused.code, refused.retry_after_ms) == ("slots_full", 15_000)
    assert residency.handle(TimePassed(), 15.1) == []
    assert residency.decide(requested, 15.1).room


def test_whoever_is_owed_a_slot_loads_before_any_borrower() -> None:
    residency = spent_worker()
    owed, borrowed = Requested(RequestId("a"), NAMES[3], ACME), Requested(RequestId("g2"), NAMES[2], GLOBEX)
    assert residency.decide(owed, 10.5).room
    assert residency.decide(borrowed, 10.5).may_wait
    unload, *_ = residency.handle(owed, 10.5)
    assert residency.handle(Unloaded(0, NAMES[0]), 10.6) == [Load(0, NAMES[3])]
    assert unload is not None


def test_what_is_hot_is_served_whatever_loads_took() -> None:
    residency = spent_worker()
    assert residency.decide(Requested(RequestId("g3"), NAMES[1], GLOBEX), 0.0).slot is residency.state.slots[1]
