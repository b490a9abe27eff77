"""Whose files leave the local store: byte reserve, limit, lending, inheritance, what is needed latest, the ledger."""

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency import invariants
from hotset.residency.accounts import Accounts
from hotset.residency.events import (
    Awaited,
    Count,
    Discard,
    Effect,
    Event,
    Load,
    Loaded,
    Lost,
    Permitted,
    Quotas,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.report import report
from hotset.residency.residency import Residency
from tests.support.ledgers import told

ACME, GLOBEX, INITECH = (TenantId(name) for name in ("acme", "globex", "initech"))
NUM_VERSIONS = 12


def version(tenant: TenantId, number: int) -> EngineName:
    return EngineName(f"hs-{tenant}-{number:02}")


NAMES = frozenset(version(tenant, number) for tenant in (ACME, GLOBEX, INITECH) for number in range(NUM_VERSIONS))


class Worker:
    """A residency of few slots over a small store, with an engine that does everything at once."""

    def __init__(
        self, quotas: dict[TenantId, Quota], *, num_slots: int = 1, store_bytes: int = 60, sizes: int = 10
    ) -> None:
        self.residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=store_bytes,
            loads_per_minute=6000.0,
            default_quota=Quota(limit_slots=num_slots),
        )
        self.sizes = sizes
        self.now_s = 0.0
        self.num_asked = 0
        self.discarded: list[Discard] = []
        self.tell(Permitted(NAMES))
        self.tell(Quotas(quotas))

    def tell(self, event: Event) -> list[Effect]:
        self.now_s += 1.0
        effects = self.residency.handle(event, self.now_s)
        invariants.check(self.residency.state)
        self.discarded += [effect for effect in effects if isinstance(effect, Discard)]
        return effects

    def ask(self, tenant: TenantId, number: int, *, of: TenantId | None = None) -> RequestId:
        """Ask for a version and let the engine do what follows."""
        self.num_asked += 1
        request = RequestId(f"r{self.num_asked}")
        todo = self.tell(Requested(request, version(of or tenant, number), tenant))
        while todo:
            match todo.pop(0):
                case Load(slot, name):
                    todo += self.tell(Loaded(slot, name, self.sizes, 0.1, slot_bytes=64))
                case Unload(slot, name):
                    todo += self.tell(Unloaded(slot, name))
                case _:
                    pass
        return request

    def use(self, tenant: TenantId, *numbers: int, of: TenantId | None = None) -> None:
        """Ask for versions, one after the other, and let each request end."""
        for number in numbers:
            self.tell(Released(self.ask(tenant, number, of=of)))

    def warm(self, tenant: TenantId) -> list[int]:
        """Return which of a tenant's own versions have files in the store."""
        return [number for number in range(NUM_VERSIONS) if version(tenant, number) in self.residency.state.warm]

    def held(self, tenant: TenantId) -> int:
        return self.residency.state.warm.held(tenant)

    def told(self) -> list[tuple[EngineName, str | None, TenantId | None, TenantId | None]]:
        return [(each.name, each.cause, each.victim, each.by) for each in self.discarded]


def test_a_rotating_tenant_never_takes_files_of_one_inside_its_byte_reserve() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=30)})
    worker.use(ACME, 0, 1, 2)
    worker.use(GLOBEX, *range(NUM_VERSIONS))
    assert worker.warm(ACME) == [0, 1, 2]
    assert worker.warm(GLOBEX) == [9, 10, 11]
    assert told(worker.residency.store_ledger) == {GLOBEX: ({"own": 9}, {"own": 9})}


def test_without_a_reserve_the_one_that_borrows_most_turns_over_its_own() -> None:
    worker = Worker({})
    worker.use(ACME, 0, 1)
    worker.use(GLOBEX, *range(NUM_VERSIONS))
    assert worker.warm(ACME) == [0, 1]
    assert worker.held(GLOBEX) == 40


def test_idle_reserve_is_lent_and_back_with_the_owners_first_load() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=30)})
    worker.use(GLOBEX, *range(6))
    assert worker.held(GLOBEX) == 60
    for number in range(3):
        worker.use(ACME, number)
        assert worker.warm(ACME) == list(range(number + 1))
    assert told(worker.residency.store_ledger) == {ACME: ({"reserve": 3}, {}), GLOBEX: ({}, {"reserve": 3})}
    assert worker.told() == [(version(GLOBEX, number), "reserve", GLOBEX, ACME) for number in range(3)]


def test_a_reserve_keeps_whole_versions_as_many_as_fit_in_it() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=25), GLOBEX: Quota(reserve_bytes=35)})
    worker.use(ACME, 0, 1, 2)
    worker.use(GLOBEX, *range(4))
    assert worker.warm(ACME) == [1, 2]
    worker.use(GLOBEX, *range(8))
    assert worker.warm(ACME) == [1, 2]


def test_one_at_or_under_its_reserve_gives_nothing_even_for_itself() -> None:
    """What slots hold stays, and by so much the store passes its bound."""
    worker = Worker({ACME: Quota(reserve_bytes=20)}, num_slots=3, store_bytes=30)
    worker.use(ACME, 0)
    running = [worker.ask(GLOBEX, 0), worker.ask(GLOBEX, 1)]
    worker.use(ACME, 1)
    assert worker.warm(ACME) == [0, 1]
    assert worker.residency.state.warm.total == 40
    for request in running:
        worker.tell(Released(request))
    worker.use(INITECH, 0)
    assert worker.residency.state.warm.total <= 40
    assert worker.warm(ACME) == [0, 1]


def test_a_limit_bounds_what_one_tenant_holds_though_the_store_has_room() -> None:
    worker = Worker({GLOBEX: Quota(limit_bytes=20)})
    worker.use(GLOBEX, *range(5))
    assert worker.warm(GLOBEX) == [3, 4]
    assert told(worker.residency.store_ledger) == {GLOBEX: ({"own": 3}, {"own": 3})}


def test_what_slots_hold_may_pass_a_limit_until_it_leaves() -> None:
    worker = Worker({GLOBEX: Quota(limit_slots=2, limit_bytes=10)}, num_slots=2)
    worker.use(GLOBEX, 0, 1)
    assert worker.held(GLOBEX) == 20
    worker.use(ACME, 0)
    assert worker.warm(GLOBEX) == [1]


def test_a_version_that_leaves_its_slot_was_in_use_until_then() -> None:
    worker = Worker({}, num_slots=2, store_bytes=40)
    running = worker.ask(GLOBEX, 0)
    worker.use(GLOBEX, 1, 2, 3)
    worker.tell(Released(running))
    assert next(iter(worker.residency.state.warm)) == version(GLOBEX, 0)
    worker.use(GLOBEX, 1)
    assert list(worker.residency.state.warm)[-2:] == [version(GLOBEX, 0), version(GLOBEX, 1)]


def test_of_its_files_the_one_needed_latest_goes() -> None:
    """Version 0 came first and is asked for steadily; version 1 was asked for once."""
    worker = Worker({}, store_bytes=40)
    worker.use(GLOBEX, 0, 1, 0, 2, 0, 3)
    worker.use(GLOBEX, 4)
    assert worker.warm(GLOBEX) == [0, 2, 3, 4]


def test_what_somebody_waits_for_is_needed_before_what_nobody_asks_for() -> None:
    worker = Worker({}, store_bytes=30)
    worker.use(GLOBEX, 0, 1, 2)
    worker.tell(Awaited(RequestId("w"), version(GLOBEX, 0)))
    worker.use(GLOBEX, 3)
    assert worker.warm(GLOBEX) == [0, 2, 3]


def test_whoever_loads_a_version_last_is_charged_for_its_files() -> None:
    worker = Worker({})
    worker.use(ACME, 0, 1)
    worker.use(GLOBEX, 0, of=ACME)
    assert (worker.held(ACME), worker.held(GLOBEX)) == (10, 10)


def test_files_are_never_charged_away_out_of_a_reserve() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=20), GLOBEX: Quota(limit_bytes=10)})
    worker.use(ACME, 0, 1)
    worker.use(GLOBEX, 0, of=ACME)
    assert (worker.held(ACME), worker.held(GLOBEX)) == (20, 0)
    worker.use(ACME, 2)
    worker.use(GLOBEX, 0, of=ACME)
    assert (worker.held(ACME), worker.held(GLOBEX)) == (20, 10)


def test_files_pass_on_with_the_charge_of_their_slot() -> None:
    worker = Worker({}, num_slots=2)
    running = worker.ask(ACME, 0)
    other = worker.ask(GLOBEX, 0, of=ACME)
    worker.tell(Released(running))
    assert (worker.held(ACME), worker.held(GLOBEX)) == (0, 10)
    worker.tell(Released(other))


def test_a_slots_charge_may_pass_on_while_the_files_stay_in_their_reserve() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=10)}, num_slots=2)
    running = worker.ask(ACME, 0)
    worker.ask(GLOBEX, 0, of=ACME)
    worker.tell(Released(running))
    assert (worker.held(ACME), worker.held(GLOBEX)) == (10, 0)
    assert worker.residency.state.slots[0].account == GLOBEX


def test_files_that_a_lost_load_may_have_left_are_charged_and_kept() -> None:
    worker = Worker({}, store_bytes=10)
    worker.tell(Requested(RequestId("r"), version(ACME, 0), ACME))
    worker.tell(Lost(0, version(ACME, 0), 10))
    assert worker.held(ACME) == 10


def test_for_files_that_a_lost_load_may_have_left_others_make_room_as_for_any() -> None:
    worker = Worker({}, store_bytes=20)
    worker.use(GLOBEX, 0, 1)
    worker.tell(Requested(RequestId("r"), version(ACME, 0), ACME))
    worker.tell(Unloaded(0, version(GLOBEX, 1)))
    effects = worker.tell(Lost(0, version(ACME, 0), 10))
    assert effects == [Count(), Discard(version(GLOBEX, 0))]
    assert worker.residency.state.warm.total == 20


def test_of_two_that_borrow_alike_the_first_by_name_gives() -> None:
    worker = Worker({}, store_bytes=40)
    worker.use(GLOBEX, 0, 1)
    worker.use(ACME, 0, 1)
    worker.use(INITECH, 0)
    assert (worker.warm(ACME), worker.warm(GLOBEX)) == ([1], [0, 1])
    assert worker.told() == [(version(ACME, 0), "borrow", ACME, INITECH)]


def test_byte_reserves_that_do_not_fit_are_cut_in_order_of_names() -> None:
    accounts = Accounts(num_slots=2, store_bytes=100, loads_per_minute=60.0)
    accounts.apply({INITECH: Quota(reserve_bytes=10), ACME: Quota(reserve_bytes=80), GLOBEX: Quota(reserve_bytes=30)})
    shares = [accounts.share(tenant).reserve_bytes for tenant in (ACME, GLOBEX, INITECH)]
    assert (shares, accounts.bytes_cut, accounts.bytes_reserved) == ([80, 20, 0], (GLOBEX, INITECH), 100)
    assert accounts.bytes_reserving == (ACME, GLOBEX, INITECH)
    accounts.apply({ACME: Quota(reserve_bytes=200, limit_bytes=300)})
    assert (accounts.bytes_cut, accounts.share(ACME).reserve_bytes, accounts.share(ACME).limit_bytes) == (
        (ACME,),
        100,
        100,
    )
    accounts.apply({})
    assert (accounts.bytes_cut, accounts.share(ACME).limit_bytes) == ((), 100)


def test_an_eviction_that_would_break_a_byte_reserve_is_our_own_bug() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=10)}, num_slots=2)
    worker.use(ACME, 0)
    with pytest.raises(AssertionError, match="I5: acme holds 10 bytes"):
        worker.residency._store._evict(version(ACME, 0), GLOBEX)


def test_a_report_shows_bytes_by_tenant_and_tier_and_whose_files_went() -> None:
    worker = Worker({ACME: Quota(reserve_bytes=30, limit_bytes=50), INITECH: Quota(reserve_bytes=40)})
    worker.use(GLOBEX, *range(6))
    worker.use(ACME, 0)
    found = report(worker.residency, worker.now_s)
    assert {
        each.tenant: (each.reserve_bytes, each.limit_bytes, each.store_bytes, each.slot_bytes) for each in found.tenants
    } == {ACME: (30, 50, 10, 64), GLOBEX: (0, 60, 50, 0), INITECH: (30, 60, 0, 0)}
    assert {each.tenant: (each.store_caused, each.store_suffered) for each in found.tenants} == {
        ACME: ({"reserve": 1}, {}),
        GLOBEX: ({}, {"reserve": 1}),
        INITECH: ({}, {}),
    }
    assert found.byte_reserves_cut == (INITECH,)
    assert (found.warm.num_bytes, found.warm.bytes_max) == (60, 60)
