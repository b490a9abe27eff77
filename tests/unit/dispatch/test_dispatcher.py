"""Slots and places together: what waits for a place holds its slot, and is refused where its version is withdrawn."""

import random

import pytest

from hotset.admission.fair_queue import FairQueue
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.dispatch.dispatcher import Arrived, Dispatcher
from hotset.dispatch.slot_finder import PATIENCE_S
from hotset.residency.events import (
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadFailed,
    Permitted,
    Quotas,
    Refuse,
    Released,
    TimePassed,
    Unload,
    Unloaded,
)
from hotset.residency.reclaim import FINISH, Reclaim
from hotset.residency.residency import Residency
from hotset.residency.reuse import Reuse

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B, C, D = (EngineName(f"hs-{letter}") for letter in "abcd")


class Worker:
    """A dispatcher that is checked after every event."""

    def __init__(
        self,
        *,
        num_slots: int = 2,
        sequences_max: int = 1,
        waiting_max: int = 100,
        stall_ms_per_s: float = 1000.0,
        reclaim: Reclaim = FINISH,
    ) -> None:
        residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=1000,
            default_quota=Quota(limit_slots=num_slots),
            stall_ms_per_s=stall_ms_per_s,
            reclaim=reclaim,
        )
        self.dispatcher = Dispatcher(residency, FairQueue(sequences_max=sequences_max), waiting_max=waiting_max)
        self.now_s = 0.0
        self.tell(Permitted(frozenset({A, B, C})))

    def tell(self, event: Arrived | Event) -> list[Effect]:
        self.now_s += 1.0
        effects = self.dispatcher.handle(event, self.now_s)
        self.dispatcher.check()
        return effects

    def ask(self, request: str, name: EngineName | None, tenant: TenantId = ACME) -> list[Effect]:
        return self.tell(Arrived(RequestId(request), name, tenant, input_tokens=10))

    def release(self, request: str) -> list[Effect]:
        return self.tell(Released(RequestId(request)))

    def load(self, slot: int, name: EngineName) -> list[Effect]:
        return self.tell(Loaded(slot, name, 1, 0.1, stall_s=0.1))


def dispatch(*requests: str) -> list[Effect]:
    return [Dispatch(RequestId(request)) for request in requests]


def test_a_hot_version_waits_for_a_place_in_the_engine() -> None:
    worker = Worker()
    assert worker.ask("a1", A) == [Load(0, A)]
    assert worker.load(0, A) == dispatch("a1")
    assert worker.ask("a2", A) == []
    assert worker.ask("base", None, GLOBEX) == []
    worker.dispatcher.queue.served(RequestId("a1"), output_tokens=100)
    assert worker.release("a1") == dispatch("base")
    assert worker.release("base") == dispatch("a2")


def test_what_is_dispatched_says_since_when_its_version_is_in_its_slot() -> None:
    worker = Worker()
    worker.ask("base", None)
    worker.ask("a", A)
    worker.load(0, A)
    loaded_at_s = worker.now_s
    assert worker.ask("a2", A) == []
    asked_at_s = worker.now_s
    (first,) = worker.release("base")
    (second,) = worker.release("a")
    assert isinstance(first, Dispatch)
    assert isinstance(second, Dispatch)
    assert (first.hot_at_s, second.hot_at_s) == (loaded_at_s, asked_at_s)


def test_a_load_costs_no_turn() -> None:
    """While globex's version comes into its slot acme is served; then globex goes first until it has as much."""
    worker = Worker()
    worker.ask("a1", A)
    worker.load(0, A)
    worker.ask("a2", A)
    worker.ask("a3", A)
    assert worker.ask("b1", B, GLOBEX) == [Load(1, B)]
    worker.ask("b2", B, GLOBEX)
    worker.dispatcher.queue.served(RequestId("a1"), output_tokens=100)
    assert worker.load(1, B) == []
    assert worker.release("a1") == dispatch("b1")
    worker.dispatcher.queue.served(RequestId("b1"), output_tokens=50)
    assert worker.release("b1") == dispatch("b2")
    worker.dispatcher.queue.served(RequestId("b2"), output_tokens=50)
    assert worker.release("b2") == dispatch("a2")


def test_what_waits_for_a_place_keeps_its_slot_and_who_wants_it_waits() -> None:
    worker = Worker(num_slots=1)
    worker.ask("base", None)
    worker.ask("a", A)
    assert worker.load(0, A) == []
    assert worker.ask("b", B) == []
    assert worker.dispatcher.is_wanting(RequestId("b"))
    assert worker.dispatcher.num_wanting() == {ACME: 1}
    assert worker.release("base") == dispatch("a")
    assert worker.release("a") == [Unload(0, A, "own")]
    assert not worker.dispatcher.is_wanting(RequestId("b"))
    assert worker.dispatcher.num_wanting() == {}


def test_residency_knows_of_what_wants_a_slot_and_counts_it_when_it_came() -> None:
    worker = Worker(num_slots=1)
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    residency = worker.dispatcher.residency
    assert RequestId("b") in residency.demand
    asked_at_s = worker.now_s
    worker.release("a")
    assert RequestId("b") not in residency.demand
    twin = Reuse()
    twin.asked(B, asked_at_s)
    assert residency.demand.log_seconds(B, worker.now_s) == twin.log_seconds(B, worker.now_s)


def test_all_that_want_a_version_come_along_with_the_first() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    worker.ask("a", A)
    worker.load(0, A)
    for request, name in (("b1", B), ("c1", C), ("b2", B)):
        assert worker.ask(request, name) == []
    assert worker.release("a") == [Unload(0, A, "own")]
    assert worker.tell(Unloaded(0, A)) == [Load(0, B)]
    assert worker.load(0, B) == dispatch("b1", "b2")
    assert worker.release("b1") == []
    assert worker.release("b2") == [Unload(0, B, "own")]


def test_who_is_owed_a_slot_is_asked_before_those_that_came_earlier() -> None:
    worker = Worker(num_slots=2, sequences_max=9)
    worker.tell(Quotas({ACME: Quota(limit_slots=2), GLOBEX: Quota(reserve_slots=1)}))
    worker.ask("a", A)
    worker.ask("b", B)
    worker.load(0, A)
    worker.ask("c", C)
    worker.now_s -= 1.0
    assert worker.ask("g", C, GLOBEX) == []
    assert worker.release("a") == [Unload(0, A, "reserve")]
    assert worker.dispatcher.residency.state.slots[0].account == GLOBEX


def test_an_impatient_request_closes_a_busy_slot_of_its_own_tenant() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    worker.ask("a1", A)
    worker.load(0, A)
    worker.ask("b", B)
    worker.now_s += PATIENCE_S
    assert worker.ask("a2", A) == dispatch("a2")
    assert worker.ask("a3", A) == []
    assert worker.release("a1") == []
    assert worker.release("a2") == [Unload(0, A, "own")]
    assert worker.tell(Unloaded(0, A)) == [Load(0, B)]
    assert worker.load(0, B) == dispatch("b")
    assert worker.release("b") == [Unload(0, B, "own")]


def test_one_that_wants_what_is_leaving_does_not_hold_back_its_tenants_others() -> None:
    worker = Worker(num_slots=2, sequences_max=9)
    worker.tell(Permitted(frozenset({A, B, C, D})))
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    worker.load(1, B)
    worker.ask("c", C)
    worker.now_s += PATIENCE_S
    worker.tell(Quotas({}))
    assert worker.ask("a2", A) == []
    assert worker.ask("d", D) == []
    worker.now_s -= 1.0
    assert worker.release("b") == [Unload(1, B, "own")]
    assert worker.tell(Unloaded(1, B)) == [Load(1, D)]


def test_no_number_of_requests_in_front_keeps_another_tenant_from_a_slot() -> None:
    worker = Worker(num_slots=2, sequences_max=9)
    worker.tell(Permitted(frozenset({A, B, C, D})))
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    worker.load(1, B)
    worker.ask("c", C)
    worker.now_s -= 1.0
    worker.ask("g", D, GLOBEX)
    assert worker.release("a") == [Unload(0, A, "borrow")]
    assert worker.dispatcher.num_wanting() == {ACME: 1}


def test_who_wants_a_slot_with_its_loads_spent_is_refused_once_there_is_room() -> None:
    worker = Worker(num_slots=1)
    worker.tell(Quotas({ACME: Quota(loads_per_minute=1.0)}))
    worker.ask("base", None)
    worker.ask("g", A, GLOBEX)
    worker.load(0, A)
    worker.ask("a1", B)
    worker.ask("a2", C)
    worker.dispatcher.residency.accounts.charge_load(ACME, worker.now_s)
    effects = worker.release("g")
    assert [(effect.request, effect.code) for effect in effects if isinstance(effect, Refuse)] == [
        ("a1", "load_rate_exceeded"),
        ("a2", "load_rate_exceeded"),
    ]
    assert worker.dispatcher.num_wanting() == {}


def test_what_a_borrower_lets_queue_does_not_run_before_its_slot_is_given_back() -> None:
    """I5: the slot closes at once."""
    worker = Worker(num_slots=1, sequences_max=1)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("g1", B, GLOBEX)
    worker.load(0, B)
    worker.ask("g2", B, GLOBEX)
    worker.ask("g3", B, GLOBEX)
    assert worker.ask("a", A) == []
    assert worker.dispatcher.num_wanting() == {GLOBEX: 2}
    assert worker.release("g1") == [Unload(0, B, "reserve")]
    assert worker.tell(Unloaded(0, B)) == [Load(0, A)]
    assert worker.load(0, A) == dispatch("a")


def test_a_slot_that_is_lent_and_given_back_again_is_cleared_again() -> None:
    worker = Worker(num_slots=1, sequences_max=1)
    for turn in ("1", "2"):
        worker.tell(Quotas({}))
        worker.ask(f"g{turn}", B, GLOBEX)
        if turn == "2":
            worker.tell(Unloaded(0, A))
        worker.load(0, B)
        worker.ask(f"h{turn}", B, GLOBEX)
        worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
        worker.ask(f"a{turn}", A)
        assert worker.dispatcher.num_wanting() == {GLOBEX: 1}
        worker.release(f"h{turn}")
        worker.release(f"g{turn}")
        worker.tell(Unloaded(0, B))
        assert worker.load(0, A) == dispatch(f"a{turn}")
        worker.release(f"a{turn}")


def test_a_slot_that_is_given_back_serves_one_of_those_it_was_loaded_for() -> None:
    """I4."""
    worker = Worker(num_slots=1, sequences_max=1)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("base", None, GLOBEX)
    worker.ask("g1", B, GLOBEX)
    worker.ask("g2", B, GLOBEX)
    worker.ask("a", A)
    assert worker.load(0, B) == []
    assert worker.dispatcher.num_wanting() == {GLOBEX: 1}
    assert worker.release("base") == dispatch("g1")
    assert worker.release("g1") == [Unload(0, B, "reserve")]


def test_a_slot_that_is_not_taken_back_after_all_is_for_those_that_queued_there() -> None:
    worker = Worker(num_slots=1, sequences_max=1)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("g1", B, GLOBEX)
    worker.load(0, B)
    worker.ask("g2", B, GLOBEX)
    worker.ask("a", A)
    assert worker.release("a") == []
    assert worker.release("g1") == dispatch("g2")


def test_what_two_tenants_want_is_forgotten_one_by_one() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    worker.ask("a", A)
    worker.load(0, A)
    for request, tenant in (("b1", ACME), ("b2", GLOBEX), ("b3", ACME)):
        worker.ask(request, B, tenant)
        worker.now_s -= 1.0
    worker.release("b1")
    assert worker.dispatcher.num_wanting() == {ACME: 1, GLOBEX: 1}
    worker.now_s -= 1.0
    worker.release("b2")
    assert worker.dispatcher.num_wanting() == {ACME: 1}
    worker.release("a")
    worker.tell(Unloaded(0, A))
    assert worker.load(0, B) == dispatch("b3")


def test_who_wants_a_slot_and_gives_up_or_is_withdrawn_is_forgotten() -> None:
    worker = Worker(num_slots=1)
    worker.ask("a", A)
    worker.ask("b", B)
    worker.ask("c", C)
    assert worker.release("b") == []
    assert worker.tell(Permitted(frozenset({A, B}))) == [Refuse(RequestId("c"), "model_not_found", "")]
    worker.load(0, A)
    assert worker.release("a") == []


def test_a_waiter_that_gives_up_frees_both() -> None:
    worker = Worker(num_slots=1)
    worker.ask("base", None)
    worker.ask("a", A)
    worker.load(0, A)
    assert worker.release("a") == []
    assert worker.ask("b", B) == [Unload(0, A, "own")]


def test_a_withdrawn_version_refuses_those_that_wait_for_a_place_too() -> None:
    """I11."""
    worker = Worker()
    worker.ask("base", None)
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    worker.load(1, B)
    effects = worker.tell(Permitted(frozenset({B, C})))
    assert Refuse(RequestId("a"), "model_not_found", "") in effects
    assert Unload(0, A, "withdrawn") in effects
    assert worker.release("base") == dispatch("b")


def test_a_dead_engine_refuses_everybody_that_waits() -> None:
    worker = Worker()
    worker.ask("base", None)
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    worker.ask("c", C)
    refused = worker.tell(EngineGone())
    assert {effect.request for effect in refused if isinstance(effect, Refuse)} == {"a", "b", "c"}
    assert {effect.code for effect in refused if isinstance(effect, Refuse)} == {"engine_unavailable"}


def test_a_failed_load_lets_nobody_wait_on() -> None:
    worker = Worker()
    worker.ask("a", A)
    assert Refuse(RequestId("a"), "load_failed", "why") in worker.tell(LoadFailed(0, A, "load_failed", "why"))
    assert worker.release("a") == []


def test_one_tenant_fills_only_half_of_the_queue_and_many_leave_room_for_another() -> None:
    worker = Worker(waiting_max=8)
    worker.ask("runs", None)
    for tenant, num_let_in in ((ACME, 4), (GLOBEX, 2), (TenantId("initech"), 1), (TenantId("umbrella"), 1)):
        for number in range(num_let_in):
            assert worker.ask(f"{tenant}{number}", None, tenant) == []
        if tenant != "umbrella":
            refused = RequestId(f"{tenant} more")
            assert worker.ask(refused, None, tenant) == [Refuse(refused, "too_many_requests", "")]
    assert worker.ask("late", None, TenantId("late")) == [Refuse(RequestId("late"), "too_many_requests", "")]


class Traffic:
    """Random clients and operators around a worker, and an engine that answers when it is its turn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.worker = Worker(num_slots=2, sequences_max=2, waiting_max=12)
        self.num_asked = 0
        self.answered: list[RequestId] = []
        self.running: set[RequestId] = set()
        self.todo: list[Effect] = []

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dispatch(request):
                    self.answered.append(request)
                    self.running.add(request)
                case Refuse(request):
                    self.answered.append(request)
                case _:
                    self.todo.append(effect)

    def ask(self) -> None:
        self.num_asked += 1
        name, tenant = self.chance.choice((None, A, B, C)), self.chance.choice((ACME, GLOBEX))
        self.take(self.worker.ask(f"r{self.num_asked}", name, tenant))

    def end_one(self) -> None:
        if self.running:
            ended = self.chance.choice(sorted(self.running))
            self.running.discard(ended)
            self.take(self.worker.release(ended))

    def engine_turn(self) -> None:
        match self.todo.pop(0) if self.todo else None:
            case Load(slot, name):
                self.take(self.worker.load(slot, name))
            case Unload(slot, name):
                self.take(self.worker.tell(Unloaded(slot, name)))
            case _:
                pass

    def permit(self) -> None:
        if self.chance.random() < 0.2:
            self.take(self.worker.tell(Permitted(frozenset(self.chance.sample((A, B, C), 2)))))


@pytest.mark.parametrize("seed", range(30))
def test_under_random_traffic_everybody_is_answered_once(seed: int) -> None:
    """I8 as far as it is decided here: each request is dispatched or refused, and none twice."""
    traffic = Traffic(seed)
    acts = (traffic.ask, traffic.ask, traffic.end_one, traffic.engine_turn, traffic.permit)
    for _ in range(300):
        traffic.chance.choice(acts)()
    while traffic.todo or traffic.running:
        traffic.engine_turn()
        traffic.end_one()
    assert sorted(traffic.answered) == sorted(RequestId(f"r{number}") for number in range(1, traffic.num_asked + 1))


def test_what_waits_for_the_stall_budget_alone_is_looked_at_again_when_it_lasts() -> None:
    worker = Worker(num_slots=2, sequences_max=9, stall_ms_per_s=1.0)
    worker.ask("a", A)
    worker.load(0, A)  # 0.1 s of stall, where 10 ms were saved up
    assert worker.dispatcher.look_again_at_s is None
    assert worker.ask("b", B) == []
    assert worker.dispatcher.is_wanting(RequestId("b"))
    at_s = worker.dispatcher.look_again_at_s
    assert at_s is not None
    # 90 ms of debt and half of what can be saved, at 1 ms a second.
    assert at_s == pytest.approx(2.0 + 1.0 + 95.0, abs=1.5)
    worker.now_s = at_s - 1.5
    assert worker.tell(TimePassed()) == []
    worker.now_s = at_s
    assert worker.tell(TimePassed()) == [Load(1, B)]
    assert worker.dispatcher.look_again_at_s is None


def test_tenants_without_any_slot_are_not_asked_one_by_one_while_the_stall_budget_is_spent() -> None:
    worker = Worker(num_slots=3, sequences_max=9, stall_ms_per_s=1.0)
    worker.ask("a", A)
    worker.load(0, A)
    assert worker.ask("b", B, GLOBEX) == []
    assert worker.ask("c", C, TenantId("initech")) == []
    worker.now_s = worker.dispatcher.look_again_at_s or 0.0
    # One load is under way then, and counts as the last one did.
    assert worker.tell(TimePassed()) == [Load(1, B)]
    assert worker.dispatcher.is_wanting(RequestId("c"))
    assert worker.dispatcher.look_again_at_s is not None


def test_an_impatient_request_is_looked_at_again_without_any_event() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    assert worker.dispatcher.look_again_at_s == worker.now_s + PATIENCE_S
    worker.now_s += PATIENCE_S
    assert worker.tell(TimePassed()) == []
    assert worker.dispatcher.residency.state.slots[0].successor == B
