"""What is remembered of who evicted whom, and that it never grows beyond its bounds."""

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import Loaded, Permitted, Quotas, Released, Requested, Unloaded
from hotset.residency.ledger import Ledger, Part
from hotset.residency.report import report
from hotset.residency.residency import Residency

ACME, GLOBEX, INITECH = (TenantId(name) for name in ("acme", "globex", "initech"))


def test_an_eviction_counts_with_who_caused_it_and_with_who_suffered_it() -> None:
    ledger = Ledger()
    ledger.evicted(ACME, GLOBEX, "reserve")
    ledger.evicted(ACME, GLOBEX, "reserve")
    ledger.evicted(GLOBEX, GLOBEX, "own")
    assert set(ledger.tenants()) == {ACME, GLOBEX}
    assert ledger.of(ACME).caused == {"reserve": 2}
    assert ledger.of(ACME).suffered == {}
    assert ledger.of(GLOBEX).caused == {"own": 1}
    assert ledger.of(GLOBEX).suffered == {"reserve": 2, "own": 1}
    assert ledger.of(INITECH) == Part()


def test_one_that_did_not_come_to_it_counts_no_more_and_leaves_nothing_behind() -> None:
    ledger = Ledger()
    ledger.evicted(ACME, GLOBEX, "borrow")
    ledger.evicted(INITECH, INITECH, "own")
    ledger.undone(ACME, GLOBEX, "borrow")
    ledger.undone(ACME, GLOBEX, "borrow")
    assert list(ledger.tenants()) == [INITECH]


def test_so_many_tenants_are_kept_and_no_more_those_that_had_a_part_in_one_last() -> None:
    ledger = Ledger(tenants_max=3)
    for number in range(1000):
        ledger.evicted(ACME, TenantId(f"t{number}"), "reserve")
    assert set(ledger.tenants()) == {ACME, TenantId("t998"), TenantId("t999")}
    assert ledger.of(ACME).caused == {"reserve": 1000}


def test_a_tenant_that_may_call_no_more_is_forgotten() -> None:
    """In a residency, by the word of control; and its eviction that is taken back then changes nothing."""
    names = {tenant: EngineName(f"hs-{tenant}") for tenant in (ACME, GLOBEX, INITECH)}
    residency = Residency(num_slots=1, warm_bytes_max=1)
    residency.handle(Permitted(frozenset(names.values())), 0.0)
    quotas = {ACME: Quota(reserve_slots=1)}
    residency.handle(Quotas(quotas), 0.0)
    residency.handle(Requested(RequestId("i"), names[INITECH], INITECH), 1.0)
    residency.handle(Loaded(0, names[INITECH], 1), 1.0)
    residency.handle(Released(RequestId("i")), 1.0)
    residency.handle(Requested(RequestId("g"), names[GLOBEX], GLOBEX), 2.0)
    residency.handle(Unloaded(0, names[INITECH]), 2.0)
    residency.handle(Loaded(0, names[GLOBEX], 1), 2.0)  # its files take those of the other's place
    residency.handle(Requested(RequestId("a"), names[ACME], ACME), 3.0)
    assert {*residency.ledger.tenants()} == {ACME, GLOBEX, INITECH}
    assert {*residency.store_ledger.tenants()} == {GLOBEX, INITECH}
    residency.handle(Quotas(quotas, frozenset({ACME})), 4.0)
    assert [*residency.ledger.tenants()] == [ACME]
    assert not residency.store_ledger.tenants()
    assert residency.ledger.of(ACME).caused == {"reserve": 1}
    residency.handle(Released(RequestId("a")), 5.0)
    assert not residency.ledger.tenants()
    assert {share.tenant for share in report(residency, 6.0).tenants} == {ACME, GLOBEX}  # it holds a slot still
