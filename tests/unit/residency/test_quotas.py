"""Who may take whose slot: reserve, limit, lending, reclaim, churn, inheritance, and what is written down of it."""

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency import invariants
from hotset.residency.events import (
    Dispatch,
    Effect,
    Event,
    Load,
    Loaded,
    Permitted,
    Quotas,
    Refuse,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.residency import Residency
from hotset.residency.slots import SlotState
from tests.support.ledgers import told

ACME, GLOBEX, INITECH = (TenantId(name) for name in ("acme", "globex", "initech"))


def version(tenant: TenantId, number: int) -> EngineName:
    return EngineName(f"hs-{tenant}-{number}")


NAMES = frozenset(version(tenant, number) for tenant in (ACME, GLOBEX, INITECH) for number in range(20))


class Worker:
    """A residency, an engine that does everything at once, and a clock that each event moves by a second."""

    def __init__(self, num_slots: int, quotas: dict[TenantId, Quota], *, loads_per_minute: float = 6000.0) -> None:
        self.residency = Residency(num_slots=num_slots, warm_bytes_max=10_000, loads_per_minute=loads_per_minute)
        self.now_s = 0.0
        self.num_asked = 0
        self.tell(Permitted(NAMES))
        self.tell(Quotas(quotas))

    def tell(self, event: Event) -> list[Effect]:
        """Tell one event alone; return its effects."""
        self.now_s += 1.0
        effects = self.residency.handle(event, self.now_s)
        invariants.check(self.residency.state)
        return effects

    def settle(self, event: Event) -> list[Effect]:
        """Tell an event and everything the engine answers to it; return the effects that are not the engine's."""
        told: list[Effect] = []
        todo = self.tell(event)
        while todo:
            match todo.pop(0):
                case Load(slot, name):
                    todo += self.tell(Loaded(slot, name, 1, 0.1))
                case Unload(slot, name):
                    todo += self.tell(Unloaded(slot, name))
                case effect:
                    told.append(effect)
        return told

    def ask(self, tenant: TenantId, number: int, *, of: TenantId | None = None) -> tuple[RequestId, list[Effect]]:
        """Ask for a version; return the request and what came of it."""
        self.num_asked += 1
        request = RequestId(f"r{self.num_asked}")
        return request, self.settle(Requested(request, version(of or tenant, number), tenant))

    def use(self, tenant: TenantId, number: int) -> None:
        """Ask for a version and let the request end."""
        request, effects = self.ask(tenant, number)
        assert effects == [Dispatch(request)]
        self.settle(Released(request))

    def hold(self, tenant: TenantId, number: int) -> RequestId:
        """Ask for a version and let the request run."""
        request, effects = self.ask(tenant, number)
        assert effects == [Dispatch(request)]
        return request

    @property
    def hot(self) -> set[EngineName]:
        return {slot.name for slot in self.residency.state.slots if slot.state is SlotState.HOT and slot.name}

    def accounts(self) -> dict[TenantId | None, int]:
        held: dict[TenantId | None, int] = {}
        for slot in self.residency.state.slots:
            held[slot.account] = held.get(slot.account, 0) + 1
        return held


def refusal(effects: list[Effect]) -> Refuse:
    (effect,) = effects
    assert isinstance(effect, Refuse)
    return effect


def test_a_rotating_tenant_never_takes_a_slot_of_one_inside_its_reserve() -> None:
    worker = Worker(4, {ACME: Quota(reserve_slots=2), GLOBEX: Quota(limit_slots=4)})
    worker.use(ACME, 0)
    worker.use(ACME, 1)
    for number in range(20):
        worker.use(GLOBEX, number)
        assert {version(ACME, 0), version(ACME, 1)} <= worker.hot
    assert worker.accounts() == {ACME: 2, GLOBEX: 2}


def test_idle_reserve_is_lent_and_comes_back_at_once_where_the_borrower_is_idle() -> None:
    worker = Worker(4, {ACME: Quota(reserve_slots=2), GLOBEX: Quota(limit_slots=4)})
    for number in range(4):
        worker.use(GLOBEX, number)
    assert worker.accounts() == {GLOBEX: 4}
    worker.use(ACME, 0)
    worker.use(ACME, 1)
    assert worker.accounts() == {ACME: 2, GLOBEX: 2}
    assert worker.residency.ledger.of(ACME).caused == {"reserve": 2}
    assert worker.residency.ledger.of(GLOBEX).suffered["reserve"] == 2


def test_a_lent_slot_that_runs_closes_and_comes_back_with_its_last_lease() -> None:
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=2)})
    first, second = worker.hold(GLOBEX, 0), worker.hold(GLOBEX, 1)
    waiting, effects = worker.ask(ACME, 0)
    assert effects == []
    closing = next(slot for slot in worker.residency.state.slots if slot.state is SlotState.CLOSING)
    assert closing.successor == version(ACME, 0)
    assert closing.account == ACME
    late, effects = worker.ask(GLOBEX, closing.index)
    assert refusal(effects) == Refuse(late, "slots_full", "The adapter makes room for another; try again shortly.")
    assert worker.settle(Released((first, second)[closing.index])) == [Dispatch(waiting)]
    assert worker.accounts() == {ACME: 1, GLOBEX: 1}


def test_an_owed_tenant_takes_the_lent_slot_though_it_runs_before_one_of_its_own() -> None:
    """I5: else a borrower that is always busy keeps the rest of the reserve for ever."""
    worker = Worker(2, {ACME: Quota(reserve_slots=2)})
    worker.use(ACME, 0)
    running = worker.hold(GLOBEX, 0)
    waiting, effects = worker.ask(ACME, 1)
    assert effects == []
    assert worker.settle(Released(running)) == [Dispatch(waiting)]
    assert worker.accounts() == {ACME: 2}
    assert worker.hot == {version(ACME, 0), version(ACME, 1)}


def test_of_busy_borrowers_the_slot_with_fewest_leases_is_closed() -> None:
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=2)})
    worker.hold(GLOBEX, 0)
    worker.hold(GLOBEX, 0)
    worker.hold(GLOBEX, 1)
    worker.ask(ACME, 0)
    assert [slot.state for slot in worker.residency.state.slots] == [SlotState.HOT, SlotState.CLOSING]


def test_a_lent_slot_is_the_borrowers_again_where_nobody_waits_for_it_any_more() -> None:
    worker = Worker(1, {ACME: Quota(reserve_slots=1)})
    running = worker.hold(GLOBEX, 0)
    waiting, _ = worker.ask(ACME, 0)
    assert worker.settle(Released(waiting)) == []
    assert worker.hot == {version(GLOBEX, 0)}
    assert worker.accounts() == {GLOBEX: 1}
    assert worker.settle(Released(running)) == []
    assert worker.hot == {version(GLOBEX, 0)}


def test_a_withdrawn_successor_gives_a_lent_slot_back_too() -> None:
    worker = Worker(1, {ACME: Quota(reserve_slots=1)})
    worker.hold(GLOBEX, 0)
    waiting, _ = worker.ask(ACME, 0)
    assert worker.settle(Permitted(NAMES - {version(ACME, 0)})) == [Refuse(waiting, "model_not_found", "")]
    assert worker.hot == {version(GLOBEX, 0)}
    assert worker.accounts() == {GLOBEX: 1}


def test_a_slot_that_closes_for_nobody_is_promised_before_another_is_closed() -> None:
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=2)})
    worker.hold(GLOBEX, 0)
    running = worker.hold(GLOBEX, 1)
    worker.tell(Permitted(NAMES - {version(GLOBEX, 1)}))
    waiting, effects = worker.ask(ACME, 0)
    assert effects == []
    assert [slot.state for slot in worker.residency.state.slots] == [SlotState.HOT, SlotState.CLOSING]
    assert worker.settle(Released(running))[-1] == Dispatch(waiting)


def test_at_its_limit_a_tenant_turns_over_its_own_slots_alone() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=2)})
    worker.use(ACME, 0)
    for number in range(10):
        worker.use(GLOBEX, number)
        assert worker.accounts().get(GLOBEX, 0) <= 2
    assert version(ACME, 0) in worker.hot
    worker.hold(GLOBEX, 8)
    worker.hold(GLOBEX, 9)
    request, effects = worker.ask(GLOBEX, 10)
    message = "Your adapters hold every slot that you may take; all of them are in use."
    assert refusal(effects) == Refuse(request, "slots_full", message)
    assert None in worker.accounts(), "a slot is empty and stays so"


def test_without_a_quota_a_tenant_may_hold_half_the_slots() -> None:
    worker = Worker(6, {})
    for number in range(10):
        worker.use(ACME, number)
    assert worker.accounts() == {ACME: 3, None: 3}


def test_among_borrowers_slots_go_from_those_with_more_to_those_with_less() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=4)})
    for number in range(4):
        worker.use(GLOBEX, number)
    worker.use(ACME, 0)
    worker.use(ACME, 1)
    assert worker.accounts() == {ACME: 2, GLOBEX: 2}
    for number in range(10, 20):
        worker.use(GLOBEX, number)
        assert worker.accounts() == {ACME: 2, GLOBEX: 2}
    assert {version(ACME, 0), version(ACME, 1)} <= worker.hot
    assert told(worker.residency.ledger) == {
        ACME: ({"borrow": 2}, {}),
        GLOBEX: ({"own": 10}, {"borrow": 2, "own": 10}),
    }


def test_a_second_slot_may_come_from_any_borrower_and_a_third_only_from_one_with_more() -> None:
    """Else two adapters in turn would evict each other in one slot, beside another's that nobody asks for."""
    worker = Worker(3, {GLOBEX: Quota(limit_slots=3), ACME: Quota(limit_slots=3)})
    for tenant in (GLOBEX, INITECH, ACME):
        worker.use(tenant, 0)
    worker.use(ACME, 1)
    assert worker.accounts() == {INITECH: 1, ACME: 2}
    worker.use(ACME, 2)
    assert worker.accounts() == {INITECH: 1, ACME: 2}
    assert told(worker.residency.ledger) == {
        ACME: ({"borrow": 1, "own": 1}, {"own": 1}),
        GLOBEX: ({}, {"borrow": 1}),
    }


def test_a_spent_churn_budget_refuses_the_next_load_and_says_when() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=4, loads_per_minute=3.0)})
    for number in range(3):
        worker.use(GLOBEX, number)
    request, effects = worker.ask(GLOBEX, 3)
    refused = refusal(effects)
    assert (refused.request, refused.code) == (request, "load_rate_exceeded")
    assert refused.retry_after_ms is not None
    assert 0 < refused.retry_after_ms <= 20_000
    worker.use(GLOBEX, 2)
    worker.now_s += refused.retry_after_ms / 1000
    worker.use(GLOBEX, 3)


def test_one_tenants_churn_is_not_anothers() -> None:
    worker = Worker(4, {GLOBEX: Quota(loads_per_minute=1.0)})
    worker.use(GLOBEX, 0)
    assert refusal(worker.ask(GLOBEX, 1)[1]).code == "load_rate_exceeded"
    worker.use(ACME, 0)


def test_a_rate_below_one_a_minute_holds_though_others_load_meanwhile() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=4, loads_per_minute=0.1)})
    worker.use(GLOBEX, 0)
    worker.now_s += 300
    worker.use(ACME, 0)
    assert refusal(worker.ask(GLOBEX, 1)[1]).code == "load_rate_exceeded"
    worker.now_s += 300
    worker.use(GLOBEX, 1)


def test_a_user_inherits_the_charge_from_one_that_uses_the_version_no_more() -> None:
    worker = Worker(4, {})
    owner = worker.hold(ACME, 0)
    _, effects = worker.ask(GLOBEX, 0, of=ACME)
    assert len(effects) == 1
    assert worker.accounts() == {ACME: 1, None: 3}
    worker.settle(Released(owner))
    assert worker.accounts() == {GLOBEX: 1, None: 3}


def test_a_user_at_its_limit_does_not_inherit() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=1)})
    worker.hold(GLOBEX, 0)
    owner = worker.hold(ACME, 0)
    worker.ask(GLOBEX, 0, of=ACME)
    worker.settle(Released(owner))
    assert worker.accounts() == {ACME: 1, GLOBEX: 1, None: 2}


def test_reserves_beyond_the_slots_are_cut_in_the_order_of_names() -> None:
    worker = Worker(4, {INITECH: Quota(reserve_slots=3), ACME: Quota(reserve_slots=3)})
    accounts = worker.residency.accounts
    assert (accounts.share(ACME).reserve, accounts.share(INITECH).reserve) == (3, 1)
    assert accounts.cut == (INITECH,)
    assert accounts.num_reserved == 4


def test_quotas_that_shrink_take_nothing_at_once() -> None:
    worker = Worker(4, {GLOBEX: Quota(limit_slots=4)})
    for number in range(4):
        worker.use(GLOBEX, number)
    assert worker.tell(Quotas({GLOBEX: Quota(limit_slots=1)})) == []
    assert worker.accounts() == {GLOBEX: 4}
    worker.use(ACME, 0)
    assert worker.accounts() == {ACME: 1, GLOBEX: 3}


def test_an_eviction_out_of_a_reserve_stops_at_the_assertion() -> None:
    """I5: whatever chooses the slot, taking one that is owed to another is a bug that is told."""
    worker = Worker(1, {ACME: Quota(reserve_slots=1)})
    worker.use(ACME, 0)
    with pytest.raises(AssertionError, match="I5"):
        worker.residency._evictions.promise(worker.residency.state.slots[0], version(GLOBEX, 0), GLOBEX, 1.0)


def test_whoever_uses_a_version_of_a_tenant_inside_its_reserve_does_not_take_the_charge() -> None:
    """I5: else the slot would be another's, above its reserve, and the next borrower would take it."""
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=2)})
    worker.use(ACME, 0)
    running, _ = worker.ask(GLOBEX, 0, of=ACME)
    assert worker.accounts() == {ACME: 1, None: 1}
    worker.settle(Released(running))
    for number in range(3):
        worker.use(INITECH, number)
        worker.use(GLOBEX, number)
    assert version(ACME, 0) in worker.hot


def test_a_slot_that_others_alone_use_is_theirs_once_its_tenant_needs_another() -> None:
    """Else whoever shares a version could hold its tenant's reserve for as long as it likes."""
    worker = Worker(2, {ACME: Quota(reserve_slots=1, limit_slots=1), GLOBEX: Quota(limit_slots=1)})
    worker.use(ACME, 0)
    worker.ask(GLOBEX, 0, of=ACME)
    worker.use(ACME, 1)
    assert worker.accounts() == {ACME: 1, GLOBEX: 1}
    assert worker.hot == {version(ACME, 0), version(ACME, 1)}


def test_a_user_at_its_limit_takes_the_charge_too_where_the_tenant_needs_another() -> None:
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=1)})
    worker.hold(GLOBEX, 0)
    worker.use(ACME, 0)
    worker.ask(GLOBEX, 0, of=ACME)
    assert worker.accounts() == {ACME: 1, GLOBEX: 1}
    worker.ask(ACME, 1)
    slots = worker.residency.state.slots
    assert [(slot.state, slot.account) for slot in slots] == [(SlotState.CLOSING, ACME), (SlotState.HOT, GLOBEX)]


def test_a_slot_that_opens_again_is_whose_it_was_and_was_not_evicted() -> None:
    worker = Worker(1, {ACME: Quota(reserve_slots=1)})
    worker.hold(GLOBEX, 0)
    worker.ask(INITECH, 0, of=GLOBEX)
    waiting, _ = worker.ask(ACME, 0)
    worker.settle(Released(waiting))
    assert worker.accounts() == {GLOBEX: 1}
    assert not worker.residency.ledger.tenants()


def test_a_withdrawn_version_that_still_runs_is_not_charged_to_one_that_gave_up_its_slot() -> None:
    worker = Worker(2, {ACME: Quota(reserve_slots=1), GLOBEX: Quota(limit_slots=2)})
    worker.hold(GLOBEX, 0)
    worker.hold(GLOBEX, 1)
    waiting, _ = worker.ask(ACME, 0)
    worker.settle(Permitted(NAMES - {version(GLOBEX, 0)}))
    worker.settle(Released(waiting))
    assert worker.accounts() == {GLOBEX: 2}
    assert worker.residency.state.slots[0].leaving == "withdrawn"


def test_a_withdrawn_version_that_still_runs_does_not_make_its_tenants_other_one_anybodys() -> None:
    """I5: the slot that empties is lost already."""
    worker = Worker(2, {ACME: Quota(reserve_slots=1, limit_slots=2), GLOBEX: Quota(limit_slots=2)})
    worker.use(ACME, 0)
    worker.hold(ACME, 1)
    worker.tell(Permitted(NAMES - {version(ACME, 1)}))
    worker.use(ACME, 0)
    _, effects = worker.ask(GLOBEX, 0)
    assert refusal(effects).code == "slots_full"
    assert worker.hot == {version(ACME, 0)}
