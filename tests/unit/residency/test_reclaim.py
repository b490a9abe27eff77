"""What runs in a slot that its owner needs finishes, or is cut once the owner has waited long enough."""

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import Cut, Effect, Loaded, Permitted, Quotas, Released, Requested, TimePassed, Unload
from hotset.residency.reclaim import Reclaim
from hotset.residency.residency import Residency

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B, C = (EngineName(f"hs-{letter}") for letter in "abc")
G1, G2, G3 = (RequestId(f"g{number}") for number in range(1, 4))


def worker(reclaim: Reclaim) -> Residency:
    """One slot of ACME's, lent to GLOBEX, of which two requests run in it."""
    residency = Residency(num_slots=1, warm_bytes_max=100, reclaim=reclaim)
    residency.handle(Permitted(frozenset({A, B, C})), 0.0)
    residency.handle(Quotas({ACME: Quota(reserve_slots=1)}), 0.0)
    residency.handle(Requested(G1, B, GLOBEX), 0.0)
    residency.handle(Loaded(0, B, 1, 0.1), 0.0)
    residency.handle(Requested(G2, B, GLOBEX), 0.0)
    return residency


def need(residency: Residency, now_s: float) -> None:
    """Let ACME need its slot."""
    assert residency.handle(Requested(RequestId("a"), A, ACME), now_s) == []


def passed(residency: Residency, now_s: float) -> list[Effect]:
    return residency.handle(TimePassed(), now_s)


def test_by_default_what_runs_finishes_however_long_that_takes() -> None:
    residency = worker(Reclaim())
    need(residency, 1.0)
    assert residency.cuts_at_s is None
    assert passed(residency, 10_000.0) == []


def test_by_cut_all_that_runs_there_is_cut_once_when_the_owner_waited_long_enough() -> None:
    residency = worker(Reclaim("cut", 5.0))
    assert residency.cuts_at_s is None
    need(residency, 1.0)
    assert residency.cuts_at_s == 6.0
    assert passed(residency, 5.9) == []
    assert passed(residency, 6.0) == [Cut(G1), Cut(G2)]
    assert residency.cuts_at_s is None
    assert passed(residency, 7.0) == []
    assert residency.handle(Released(G1), 7.1) == []
    assert residency.handle(Released(G2), 7.2) == [Unload(0, B, "reserve")]


def test_what_ended_before_is_not_cut() -> None:
    residency = worker(Reclaim("cut", 5.0))
    need(residency, 1.0)
    residency.handle(Released(G1), 2.0)
    assert passed(residency, 6.0) == [Cut(G2)]


def test_a_slot_that_its_owner_gave_up_on_is_the_borrowers_again() -> None:
    residency = worker(Reclaim("cut", 5.0))
    need(residency, 1.0)
    residency.handle(Released(RequestId("a")), 2.0)
    assert residency.cuts_at_s is None
    assert passed(residency, 6.0) == []
    need(residency, 8.0)
    assert residency.cuts_at_s == 13.0


def test_what_closes_for_another_reason_is_not_cut() -> None:
    residency = worker(Reclaim("cut", 5.0))
    residency.handle(Permitted(frozenset({A, C})), 1.0)
    assert residency.cuts_at_s is None
    assert passed(residency, 100.0) == []


def test_what_runs_of_a_withdrawn_version_is_cut_once_an_owner_waits_for_its_slot() -> None:
    """I5: it closed before, for nobody; the owner waits from when it was promised the slot."""
    residency = worker(Reclaim("cut", 5.0))
    residency.handle(Permitted(frozenset({A, C})), 1.0)
    assert residency.cut_in_s(residency.state.slots[0], ACME, 1.0) == 5.0
    need(residency, 2.0)
    assert residency.cuts_at_s == 7.0
    assert residency.cut_in_s(residency.state.slots[0], ACME, 3.0) == 4.0
    assert passed(residency, 7.0) == [Cut(G1), Cut(G2)]
    residency.handle(Released(G1), 7.1)
    assert residency.handle(Released(G2), 7.2) == [Unload(0, B, "withdrawn")]
    assert not residency.ledger.tenants()  # nobody evicted it


def test_what_runs_of_a_tenants_own_withdrawn_version_is_not_cut_for_its_next() -> None:
    residency = Residency(num_slots=2, warm_bytes_max=100, reclaim=Reclaim("cut", 5.0))
    residency.handle(Permitted(frozenset({A, B, C})), 0.0)
    residency.handle(Quotas({ACME: Quota(reserve_slots=2)}), 0.0)
    for number, (request, name, tenant) in enumerate(((G1, B, ACME), (G2, C, GLOBEX))):
        residency.handle(Requested(request, name, tenant), 0.0)
        residency.handle(Loaded(number, name, 1, 0.1), 0.0)
    residency.handle(Permitted(frozenset({A, C})), 1.0)
    need(residency, 2.0)
    assert residency.state.slots[0].successor == A
    assert residency.cuts_at_s is None
