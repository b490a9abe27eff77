"""What waits is needed in its turn; of the rest there is a guess, and nothing comes before what waits."""

import math
from collections.abc import Sequence

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.demand import Demand
from hotset.residency.events import Awaited, Load, Loaded, Permitted, Released, Requested, Unload
from hotset.residency.residency import Residency

A, B, C, D = (EngineName(f"hs-{letter}") for letter in "abcd")
ACME = TenantId("acme")


class AsLongAgain:
    """Guesses that a version is asked for again after as long as it was not."""

    def __init__(self) -> None:
        self._asked_at_s: dict[EngineName, float] = {}

    def asked(self, name: EngineName, now_s: float) -> None:
        self._asked_at_s[name] = now_s

    def forget(self, kept: frozenset[EngineName]) -> None:
        self._asked_at_s = {name: at_s for name, at_s in self._asked_at_s.items() if name in kept}

    def log_seconds_of(self, names: Sequence[EngineName], now_s: float) -> list[float]:
        return [math.log(now_s - self._asked_at_s.get(name, -math.inf)) for name in names]


def demand_of(*names: EngineName) -> Demand:
    """Return a demand in which each version was asked for once, at 0."""
    demand = Demand(AsLongAgain())
    for name in names:
        demand.asked(name, 0.0)
    return demand


def test_with_nothing_waiting_it_is_the_guess() -> None:
    demand = demand_of(A)
    assert demand.log_seconds(A, 20.0) == pytest.approx(math.log(20.0))
    assert demand.log_seconds(B, 20.0) == math.inf


def test_what_waits_is_needed_as_long_from_now_as_it_came_after_the_first() -> None:
    demand = demand_of(A, B, C)
    demand.waits(RequestId("a"), A, 100.0)
    demand.waits(RequestId("b"), B, 103.0)
    demand.waits(RequestId("a2"), A, 109.0)
    assert demand.log_seconds(A, 110.0) == pytest.approx(math.log(0.001))
    assert demand.log_seconds(B, 110.0) == pytest.approx(math.log(3.0))
    # 10 s of queue, and then perhaps 110 s.
    assert demand.log_seconds(C, 110.0) == pytest.approx(math.log(120.0))
    assert demand.log_seconds(D, 110.0) == math.inf


def test_of_what_came_at_once_each_has_its_turn() -> None:
    demand = demand_of(A, B)
    for name in (A, A, B):
        demand.waits(RequestId(f"{name}{len(demand)}"), name, 100.0)
    assert demand.log_seconds(A, 100.0) == pytest.approx(math.log(0.001))
    assert demand.log_seconds(B, 100.0) == pytest.approx(math.log(0.003))


def test_what_found_its_slot_or_gave_up_waits_no_more() -> None:
    demand = demand_of(A, B)
    demand.waits(RequestId("a"), A, 100.0)
    demand.waits(RequestId("b"), B, 104.0)
    demand.waits_no_more(RequestId("a"))
    demand.waits_no_more(RequestId("never"))
    assert demand.log_seconds(B, 110.0) == pytest.approx(math.log(0.001))
    assert demand.log_seconds(A, 110.0) == pytest.approx(math.log(116.0))
    demand.forget(frozenset({A}))
    assert len(demand) == 0
    assert demand.log_seconds(B, 110.0) == math.inf


def worker() -> Residency:
    """Two slots, A in the first and B in the second; B was asked for last."""
    residency = Residency(num_slots=2, warm_bytes_max=100, default_quota=Quota(limit_slots=2))
    residency.handle(Permitted(frozenset({A, B, C})), 0.0)
    for at_s, slot, name in ((1.0, 0, A), (2.0, 1, B)):
        assert residency.handle(Requested(RequestId(name), name, ACME), at_s) == [Load(slot, name)]
        residency.handle(Loaded(slot, name, 1, 0.1), at_s)
        residency.handle(Released(RequestId(name)), at_s)
    return residency


def test_a_version_that_waits_stays_and_one_asked_for_later_goes() -> None:
    residency = worker()
    assert residency.handle(Awaited(RequestId("a"), A), 3.0) == []
    assert residency.handle(Requested(RequestId("c"), C, ACME), 4.0) == [Unload(1, B, "own")]


def test_without_a_queue_the_one_asked_for_longest_ago_goes() -> None:
    residency = worker()
    residency.handle(Awaited(RequestId("a"), A), 3.0)
    residency.handle(Released(RequestId("a")), 3.5)
    residency.handle(Awaited(RequestId("b"), B), 3.5)
    assert residency.handle(Requested(RequestId("c"), C, ACME), 4.0) == [Unload(0, A, "own")]


def test_a_request_counts_once_however_often_it_loses_its_slot() -> None:
    """Else each loss would look like one more request, and the version like one asked for all the time."""
    once, often = worker(), worker()
    for residency in (once, often):
        residency.handle(Awaited(RequestId("a"), A), 3.0)
    for at_s in (4.0, 5.0, 6.0):
        often.handle(Released(RequestId("a")), at_s)
        often.handle(Awaited(RequestId("a"), A, is_again=True), at_s)
    for residency in (once, often):
        residency.handle(Requested(RequestId("a"), A, ACME), 7.0)
        residency.handle(Released(RequestId("a")), 8.0)
    assert once.worth(once.state.slots[0], 9.0) == often.worth(often.state.slots[0], 9.0)
