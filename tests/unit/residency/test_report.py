"""The report says what the state is, changes nothing, and names the slot that the policy would really take."""

import copy
import math
import pickle
import random
from dataclasses import replace

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.core.residency_report import NextRoom, ResidencyReport, SlotReport
from hotset.residency import invariants
from hotset.residency.events import (
    EngineGone,
    Load,
    Loaded,
    LoadFailed,
    Permitted,
    Quotas,
    Refuse,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.report import report
from hotset.residency.residency import Residency
from hotset.residency.slots import Lease, Slot, SlotState

ACME, GLOBEX, INITECH, NEWCOMER = (TenantId(name) for name in ("acme", "globex", "initech", "newcomer"))
A, B, C, D, E, NEW = (EngineName(f"hs-{letter}") for letter in "abcdef")


def residency_of(*slots: Slot, quotas: dict[TenantId, Quota] | None = None) -> Residency:
    """Return a residency with these slots, every named version warm and permitted, leases to match `users`."""
    made = Residency(num_slots=len(slots), warm_bytes_max=1000, loads_per_minute=60.0)
    for made_slot, slot in zip(made.state.slots, slots, strict=True):
        made.state.move(made_slot, slot.state, slot.name, slot.successor)
        made.state.charge(made_slot, slot.account)
    made.state.slots[:] = slots
    made.state.promises = {name: slots[slot.index] for name, slot in made.state.promises.items()}
    made.handle(Quotas(quotas or {}), 0.0)
    made.state.permitted = frozenset({A, B, C, D, E, NEW})
    for slot in slots:
        if slot.name is not None and slot.state is not SlotState.LOADING:
            made.state.warm.add(slot.name, 10 * (slot.index + 1))
        runs, slot.waiting = slot.num_running, {}
        for tenant, count in slot.users.items():
            for _ in range(count):
                name = slot.name if runs > 0 else slot.promised()
                request = RequestId(f"r{len(made.state.leases)}")
                made.state.leases[request] = Lease(name, slot.index, tenant, running=runs > 0)
                if runs <= 0:
                    slot.waiting[request] = None
                runs -= 1
    invariants.check(made.state)
    return made


def hot(index: int, name: EngineName, account: TenantId, **fields: object) -> Slot:
    return Slot(index, SlotState.HOT, name, account=account, **fields)  # pyright: ignore[reportArgumentType]


def busy(index: int, name: EngineName, account: TenantId) -> Slot:
    return hot(index, name, account, users={account: 1}, num_leases=1)


def test_an_empty_worker_has_nothing_but_empty_slots() -> None:
    found = report(Residency(num_slots=2, warm_bytes_max=10), 5.0)
    assert found.slots == (SlotReport(index=0, state="empty"), SlotReport(index=1, state="empty"))
    assert found.next == NextRoom(slot=0)
    assert (found.tenants, found.reserves_cut) == ((), ())
    assert (found.warm.num_versions, found.warm.num_bytes, found.warm.largest) == (0, 0, ())


def test_each_state_of_a_slot_is_shown_with_what_means_something_in_it() -> None:
    closing = Slot(2, SlotState.CLOSING, C, D, INITECH, leaving="reserve", hot_since_s=90.0, load_s=0.5, slot_bytes=7)
    closing.users, closing.num_leases, closing.waiting = {GLOBEX: 2, ACME: 1}, 3, {RequestId("r"): None}
    loading = Slot(0, SlotState.LOADING, A, account=ACME, users={ACME: 1}, num_leases=1, hot_since_s=1.0)
    loading.waiting = {RequestId("r"): None}
    served = hot(1, B, ACME, hot_since_s=60.0, load_s=2.0, slot_bytes=5)
    residency = residency_of(loading, served, closing, Slot(3, SlotState.UNLOADING, E, account=ACME, leaving="own"))
    found = report(residency, 100.0)
    assert found.slots == (
        SlotReport(index=0, state="loading", version=A, account=ACME, num_waiting=1, users={ACME: 1}),
        SlotReport(index=1, state="hot", version=B, account=ACME, hot_for_s=40.0, load_s=2.0, slot_bytes=5),
        SlotReport(
            index=2,
            state="closing",
            version=C,
            successor=D,
            account=INITECH,
            leaving="reserve",
            hot_for_s=10.0,
            load_s=0.5,
            num_running=2,
            num_waiting=1,
            users={ACME: 1, GLOBEX: 2},
            slot_bytes=7,
        ),
        SlotReport(index=3, state="unloading", version=E, account=ACME, leaving="own"),
    )
    assert list(found.slots[2].users) == [ACME, GLOBEX]


def test_what_the_engine_says_of_a_version_is_shown_until_it_has_left() -> None:
    residency = Residency(num_slots=1, warm_bytes_max=1000)
    residency.handle(Permitted(frozenset({A, B})), 0.0)
    residency.handle(Requested(RequestId("r"), A, ACME), 1.0)
    residency.handle(Loaded(0, A, 10, 0.25, 4096), 2.0)
    residency.handle(Released(RequestId("r")), 3.0)
    (slot,) = report(residency, 10.0).slots
    assert (slot.hot_for_s, slot.load_s, slot.slot_bytes) == (8.0, 0.25, 4096)
    assert slot.worth is not None
    assert slot.worth == residency.worth(residency.state.slots[0], 10.0)
    unmeasured = residency.worth(replace(residency.state.slots[0], load_s=0.0, log_load_s=math.log(0.001)), 10.0)
    assert residency.worth(residency.state.slots[0], 10.0) - unmeasured == pytest.approx(math.log(250))
    residency.handle(Requested(RequestId("s"), B, ACME), 11.0)
    residency.handle(Unloaded(0, A), 12.0)
    (slot,) = report(residency, 13.0).slots
    assert (slot.state, slot.version, slot.load_s, slot.slot_bytes) == ("loading", B, None, None)


@pytest.mark.parametrize(
    ("slots", "quotas", "expected"),
    [
        ([hot(0, A, ACME), Slot(1)], {}, NextRoom(slot=1)),
        ([hot(0, A, ACME), Slot(1, SlotState.UNLOADING, B, account=ACME)], {}, NextRoom(slot=1)),
        ([busy(0, A, ACME), hot(1, B, ACME)], {}, NextRoom(slot=1, leaves=B)),
        ([busy(0, A, ACME), busy(1, B, ACME)], {}, NextRoom(slot=None)),
        ([hot(0, A, ACME), hot(1, B, GLOBEX)], {ACME: Quota(1), GLOBEX: Quota(1)}, NextRoom(slot=None)),
        ([hot(0, A, ACME), hot(1, B, GLOBEX)], {ACME: Quota(1)}, NextRoom(slot=1, leaves=B)),
    ],
    ids=["empty", "emptying", "idle", "all busy", "all owed", "one borrowed"],
)
def test_next_is_what_a_tenant_without_slots_may_take(
    slots: list[Slot], quotas: dict[TenantId, Quota], expected: NextRoom
) -> None:
    residency = residency_of(*copy.deepcopy(slots), quotas=quotas)
    assert report(residency, 50.0).next == expected
    assert what_a_newcomer_gets(residency, 50.0) == expected


def test_of_two_that_may_go_the_one_worth_less_is_next() -> None:
    residency = Residency(num_slots=2, warm_bytes_max=1000)
    residency.handle(Permitted(frozenset({A, B})), 0.0)
    for now_s, (slot, name, tenant) in enumerate(((0, A, ACME), (1, B, GLOBEX)), start=1):
        residency.handle(Requested(RequestId(name), name, tenant), now_s)
        residency.handle(Loaded(slot, name, 10, {A: 0.1, B: 5.0}[name]), now_s)
        residency.handle(Released(RequestId(name)), now_s)
    found = report(residency, 20.0)
    first, second = (slot.worth for slot in found.slots)
    assert first is not None
    assert second is not None
    assert first < second
    assert found.next == NextRoom(slot=0, leaves=A)


def test_a_tenant_is_shown_that_holds_is_owed_was_cut_or_has_a_part_in_an_eviction_and_no_other() -> None:
    quotas = {ACME: Quota(1, 2, 30.0), GLOBEX: Quota(5), INITECH: Quota(1), TenantId("quiet"): Quota(0, 3)}
    residency = residency_of(hot(0, A, ACME), Slot(1), quotas=quotas)
    residency.ledger.evicted(NEWCOMER, ACME, "borrow")
    residency.ledger.evicted(NEWCOMER, ACME, "borrow")
    residency.ledger.evicted(ACME, ACME, "own")
    residency.ledger.evicted(ACME, NEWCOMER, "reserve")
    residency.accounts.charge_load(ACME, 100.0)
    found = report(residency, 100.0)
    shares = {
        share.tenant: (share.reserve, share.limit, share.held, share.loads_left, share.loads_per_minute)
        for share in found.tenants
    }
    assert shares == {
        ACME: (1, 2, 1, 29.0, 30.0),
        GLOBEX: (1, 2, 0, 60.0, 60.0),
        INITECH: (0, 1, 0, 60.0, 60.0),
        NEWCOMER: (0, 1, 0, 60.0, 60.0),
    }
    assert list(shares) == sorted(shares)
    assert found.reserves_cut == (GLOBEX, INITECH)
    assert {share.tenant: (share.caused, share.suffered) for share in found.tenants if share.caused} == {
        ACME: ({"own": 1, "reserve": 1}, {"borrow": 2, "own": 1}),
        NEWCOMER: ({"borrow": 2}, {"reserve": 1}),
    }


def test_a_tenant_whose_requests_found_no_slot_is_shown_though_it_holds_none() -> None:
    residency = residency_of(busy(0, A, ACME), quotas={ACME: Quota(1)})
    shares = {share.tenant: share for share in report(residency, 1.0, wanting={GLOBEX: 3}).tenants}
    assert {tenant: (share.held, share.num_wanting) for tenant, share in shares.items()} == {
        ACME: (1, 0),
        GLOBEX: (0, 3),
    }


def test_warm_versions_are_counted_and_the_largest_are_named() -> None:
    residency = Residency(num_slots=1, warm_bytes_max=1000)
    for name, num_bytes in ((A, 5), (C, 9), (B, 9), (D, 1)):
        residency.state.warm.add(name, num_bytes)
    warm = report(residency, 0.0, largest_max=3).warm
    assert (warm.num_versions, warm.num_bytes) == (4, 24)
    assert warm.largest == ((B, 9), (C, 9), (A, 5))


def test_a_version_nothing_is_known_of_has_no_worth() -> None:
    assert [slot.worth for slot in report(residency_of(hot(0, A, ACME)), 1.0).slots] == [None]


@pytest.mark.parametrize("seed", range(4))
def test_after_any_events_a_report_changes_nothing_and_its_next_is_what_happens(seed: int) -> None:
    rng = random.Random(seed)
    residency = Residency(num_slots=4, warm_bytes_max=1000, loads_per_minute=120.0)
    names = {tenant: [EngineName(f"hs-{tenant}-{i}") for i in range(4)] for tenant in (ACME, GLOBEX, INITECH)}
    residency.handle(Permitted(frozenset({NEW, *(name for own in names.values() for name in own)})), 0.0)
    residency.handle(Quotas({ACME: Quota(2, 3), GLOBEX: Quota(1, 4)}), 0.0)
    asked, seen = list[RequestId](), set[str]()
    todo: list[Load | Unload] = []
    now_s = 0.0
    for step in range(160):
        now_s += rng.expovariate(2.0)
        event = a_random_event(rng, residency, names, todo, asked, step)
        effects = residency.handle(event, now_s)
        todo = [] if isinstance(event, EngineGone) else todo
        todo += [effect for effect in effects if isinstance(effect, Load | Unload)]
        before = pickle.dumps(residency)
        told = report(residency, now_s)
        assert pickle.dumps(residency) == before
        assert told.next == what_a_newcomer_gets(residency, now_s), f"seed {seed}, step {step}"
        seen.add(kind_of(told))
    assert seen == {"free", "evict", "refused"}


def a_random_event(
    rng: random.Random,
    residency: Residency,
    names: dict[TenantId, list[EngineName]],
    todo: list[Load | Unload],
    asked: list[RequestId],
    step: int,
) -> Requested | Released | Loaded | LoadFailed | Unloaded | EngineGone:
    """Return a request, the end of one, or the outcome of the oldest effect."""
    if step % 100 == 99:
        return EngineGone()
    choice = rng.random()
    if todo and choice < 0.5:
        effect = todo.pop(0)
        if isinstance(effect, Unload):
            return Unloaded(effect.slot, effect.name)
        if rng.random() < 0.1:
            return LoadFailed(effect.slot, effect.name, "load_failed", "")
        return Loaded(effect.slot, effect.name, 10, rng.random())
    if asked and choice < 0.7:
        return Released(asked.pop(rng.randrange(len(asked))))
    tenant = rng.choice(list(names))
    request = RequestId(f"r{step}")
    asked.append(request)
    return Requested(request, rng.choice(names[tenant]), tenant)


def what_a_newcomer_gets(residency: Residency, now_s: float) -> NextRoom:
    """Ask as a tenant without slots, on a copy, and see."""
    asked = copy.deepcopy(residency)
    states = [slot.state for slot in asked.state.slots]
    effects = asked.handle(Requested(RequestId("newcomer"), NEW, NEWCOMER), now_s)
    if any(isinstance(effect, Refuse) for effect in effects):
        return NextRoom(slot=None)
    slot = next(slot for slot in asked.state.slots if slot.promised() == NEW)
    was_hot = states[slot.index] is SlotState.HOT
    return NextRoom(slot=slot.index, leaves=slot.name if was_hot else None)


def kind_of(told: ResidencyReport) -> str:
    if told.next.slot is None:
        return "refused"
    return "free" if told.next.leaves is None else "evict"
