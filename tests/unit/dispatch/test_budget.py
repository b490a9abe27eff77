"""First-token budgets: who is let wait, who is refused at once, and with what word of when to come back."""

import pytest

from hotset.admission.fair_queue import FairQueue
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Frozen
from hotset.residency.events import (
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadFailed,
    Lost,
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

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B, C, D = (EngineName(f"hs-{letter}") for letter in "abcd")


class Worker:
    """A worker whose loads take 2 s, prompts 0.1 s and requests 1 s; it has seen one of each."""

    def __init__(
        self,
        *,
        num_slots: int = 4,
        sequences_max: int = 2,
        stall_ms_per_s: float = 1000.0,
        reclaim: Reclaim = FINISH,
        request_s: float = 1.0,
    ) -> None:
        residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=1000,
            default_quota=Quota(limit_slots=num_slots),
            stall_ms_per_s=stall_ms_per_s,
            reclaim=reclaim,
        )
        self.dispatcher = Dispatcher(residency, FairQueue(sequences_max=sequences_max), waiting_max=100)
        self.dispatcher.outlook.sizes = dict.fromkeys((A, B, C, D), 1000)
        self.now_s = 0.0
        self.tell(Permitted(frozenset({A, B, C, D})))
        times = self.dispatcher.outlook.times
        for _ in range(200):  # steady, so the safe side is the expected one
            times.loaded("cold", 1000, 2.0)
            times.prompt.add(0.1)
            times.request.add(request_s)

    def tell(self, event: Arrived | Frozen | Event) -> list[Effect]:
        effects = self.dispatcher.handle(event, self.now_s)
        self.dispatcher.check()
        return effects

    def ask(
        self, request: str, name: EngineName | None, budget_s: float | None = None, tenant: TenantId = ACME
    ) -> list[Effect]:
        return self.tell(Arrived(RequestId(request), name, tenant, 10, 1, budget_s))

    def make_hot(self, slot: int, name: EngineName) -> None:
        self.ask(f"warm-{name}", name)
        self.tell(Loaded(slot, name, 10, 2.0))
        self.now_s += 1.0
        self.tell(Released(RequestId(f"warm-{name}")))


def refusal(effects: list[Effect], request: str) -> Refuse:
    (found,) = [effect for effect in effects if isinstance(effect, Refuse) and effect.request == request]
    return found


def test_a_cold_request_within_its_budget_waits() -> None:
    assert Worker().ask("a", A, budget_s=2.2) == [Load(0, A)]


def test_a_cold_request_that_would_miss_its_budget_is_refused_at_once_and_its_load_begins() -> None:
    worker = Worker()
    effects = worker.ask("a", A, budget_s=1.0)
    assert effects[0] == Load(0, A)
    refused = refusal(effects, "a")
    assert refused.code == "adapter_cold"
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 2000) <= 1
    worker.now_s += refused.retry_after_ms / 1000
    assert worker.tell(Loaded(0, A, 10, 2.0)) == []
    assert worker.ask("again", A, budget_s=1.0) == [Dispatch(RequestId("again"))]


def test_another_client_of_a_load_under_way_is_told_what_is_left_of_it() -> None:
    worker = Worker()
    worker.ask("a", A)
    worker.now_s += 1.5
    refused = refusal(worker.ask("a2", A, budget_s=0.5), "a2")
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 500) <= 1
    assert worker.ask("a3", A, budget_s=0.7) == []


def test_a_load_waits_for_those_asked_for_before_it() -> None:
    worker = Worker()
    worker.ask("a", A)
    worker.ask("b", B)
    refused = refusal(worker.ask("c", C, budget_s=5.9), "c")
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 6000) <= 2
    assert worker.ask("d", D, budget_s=8.2) == [Load(3, D)]


def test_without_a_budget_nobody_is_refused_for_time() -> None:
    worker = Worker()
    worker.ask("a", A)
    assert worker.ask("b", B) == [Load(1, B)]


def test_before_anything_was_seen_a_budget_is_tried() -> None:
    residency = Residency(num_slots=1, warm_bytes_max=1000)
    dispatcher = Dispatcher(residency, FairQueue(sequences_max=1), waiting_max=10)
    dispatcher.handle(Permitted(frozenset({A})), 0.0)
    assert dispatcher.handle(Arrived(RequestId("a"), A, ACME, 10, 1, 0.001), 0.0) == [Load(0, A)]


def test_a_hot_request_behind_a_long_queue_is_told_to_come_back() -> None:
    worker = Worker(sequences_max=1)
    worker.make_hot(0, A)
    for number in range(4):
        worker.ask(f"r{number}", A)
    refused = refusal(worker.ask("late", A, budget_s=1.0), "late")
    assert refused.code == "too_many_requests"
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 3100) <= 5
    assert worker.ask("patient", A, budget_s=5.0) == []


def test_a_slot_that_has_to_drain_first_counts() -> None:
    worker = Worker(num_slots=1)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("g", B, tenant=GLOBEX)
    worker.tell(Loaded(0, B, 10, 2.0))
    refused = refusal(worker.ask("a", A, budget_s=2.5), "a")
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 3000) <= 2


@pytest.mark.parametrize(
    ("reclaim", "told_s"),
    [
        (Reclaim("finish", 5.0), [62.0, 62.0]),
        (Reclaim("cut", 5.0), [7.0, 6.0]),
        (Reclaim("cut", 90.0), [62.0, 62.0]),
    ],
    ids=["finishes", "is cut", "ends before it is cut"],
)
def test_a_lent_slot_drains_no_longer_than_until_what_runs_there_is_cut(reclaim: Reclaim, told_s: list[float]) -> None:
    worker = Worker(num_slots=1, reclaim=reclaim, request_s=60.0)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("g", B, tenant=GLOBEX)
    worker.tell(Loaded(0, B, 10, 2.0))
    refused = refusal(worker.ask("a", A, budget_s=2.5), "a")
    worker.now_s += 1.0  # the slot closes since then
    again = refusal(worker.ask("a2", A, budget_s=2.5), "a2")
    for found, seconds in zip((refused, again), told_s, strict=True):
        assert found.retry_after_ms is not None
        assert abs(found.retry_after_ms - 1000 * seconds) <= 20, (reclaim, seconds)


def test_a_borrower_waits_for_its_own_requests_to_end_whatever_owners_are_promised() -> None:
    worker = Worker(num_slots=1, reclaim=Reclaim("cut", 5.0), request_s=60.0)
    worker.ask("g", B, tenant=GLOBEX)
    worker.tell(Loaded(0, B, 10, 2.0))
    refused = refusal(worker.ask("a", A, budget_s=2.5), "a")
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 62_000) <= 20


def test_where_there_is_no_room_what_runs_has_to_end_first_and_nothing_is_brought_in() -> None:
    worker = Worker(num_slots=1)
    worker.ask("a", A)
    effects = worker.ask("b", B, budget_s=0.5)
    refused = refusal(effects, "b")
    assert effects == [refused]
    assert (refused.code, refused.retry_after_ms) == ("adapter_cold", 5000)
    assert worker.ask("b2", B, budget_s=5.2) == []


def test_what_loads_and_requests_take_is_learnt_from_them() -> None:
    worker = Worker(num_slots=1)
    for number in range(60):
        name = (A, B)[number % 2]
        effects = worker.ask(f"r{number}", name)
        if isinstance(effects[0], Unload):
            effects = worker.tell(Unloaded(0, effects[0].name))
        worker.now_s += 4.0
        assert worker.tell(Loaded(0, name, 10, 4.0)) == [Dispatch(RequestId(f"r{number}"))]
        worker.now_s += 0.5
        worker.dispatcher.outlook.first_token(RequestId(f"r{number}"), worker.now_s)
        worker.now_s += 2.5
        worker.tell(Released(RequestId(f"r{number}")))
    times = worker.dispatcher.outlook.times
    assert abs(times.load("warm", 1000).expected_s - 4.0) < 0.05
    assert abs(times.prompt.predict().expected_s - 0.5) < 0.05
    assert abs(times.request.predict().expected_s - 3.0) < 0.05


def test_a_failed_load_and_a_dead_engine_are_not_waited_for() -> None:
    worker = Worker()
    worker.ask("a", A)
    worker.tell(LoadFailed(0, A, "load_failed", ""))
    assert worker.ask("b", B, budget_s=2.2) == [Load(0, B)]
    worker.tell(EngineGone())
    assert worker.ask("c", C, budget_s=2.2) == [Load(0, C)]


def test_a_lent_slot_closes_for_an_owed_tenant_whose_budget_is_too_short_for_it() -> None:
    """I5: else a borrower that is always busy kept it from one that only sends short budgets."""
    worker = Worker(num_slots=1)
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("g1", B, tenant=GLOBEX)
    worker.tell(Loaded(0, B, 10, 2.0))
    worker.ask("g2", B, tenant=GLOBEX)
    assert refusal(worker.ask("a", A, budget_s=1.0), "a").code == "adapter_cold"
    assert worker.ask("g3", B, tenant=GLOBEX) == []
    assert worker.tell(Released(RequestId("g1"))) == []
    assert worker.tell(Released(RequestId("g2"))) == [Unload(0, B, "reserve")]
    assert worker.tell(Unloaded(0, B)) == [Load(0, A)]
    worker.tell(Loaded(0, A, 10, 2.0))
    assert worker.ask("again", A, budget_s=1.0) == [Dispatch(RequestId("again"))]


def test_a_lost_unload_ends_no_load_of_the_same_version() -> None:
    worker = Worker(num_slots=2)
    worker.tell(Quotas({ACME: Quota(limit_slots=1)}))
    worker.make_hot(0, A)
    assert worker.ask("c", C) == [Unload(0, A, "own")]
    assert worker.ask("g", A, tenant=GLOBEX) == [Load(1, A)]
    worker.now_s += 1.5
    worker.tell(Lost(0, A))
    refused = refusal(worker.ask("g2", A, budget_s=0.3, tenant=GLOBEX), "g2")
    assert refused.retry_after_ms is not None
    assert abs(refused.retry_after_ms - 500) <= 2


def test_the_wait_for_the_stall_budget_is_part_of_what_is_predicted() -> None:
    worker = Worker(stall_ms_per_s=100.0)
    worker.ask("a", A)
    worker.tell(Loaded(0, A, 10, 2.0, stall_s=1.5))
    # Half a second of debt, and half the bucket more, at 100 ms a second; then 2 s of load and 0.1 s of prompt.
    refused = refusal(worker.ask("b", B, budget_s=12.0), "b")
    assert (refused.code, refused.retry_after_ms) == ("adapter_cold", 12_000)
    assert worker.ask("b2", B, budget_s=12.2) == []
    assert worker.dispatcher.is_wanting(RequestId("b2"))
    worker.now_s = 10.0
    assert worker.tell(TimePassed()) == [Load(1, B)]


def test_versions_take_turns_in_the_slots_that_are_given_up() -> None:
    worker = Worker(num_slots=1, sequences_max=8)
    worker.make_hot(0, A)
    worker.ask("a", A)
    for number, (request, name) in enumerate((("b", B), ("c", C))):
        assert worker.ask(request, name, budget_s=30.0) == []  # a request, a load, and three seconds a turn before it
        refused = refusal(worker.ask(f"{request}2", D, budget_s=0.5), f"{request}2")
        assert refused.retry_after_ms is not None
        assert abs(refused.retry_after_ms - 1000 * (6 + 3 * number)) <= 5


def test_clients_that_are_told_to_come_back_are_told_one_after_the_other() -> None:
    worker = Worker(num_slots=1, sequences_max=8)
    worker.make_hot(0, A)
    worker.ask("a", A)
    told = [refusal(worker.ask(f"r-{name}", name, budget_s=0.5), f"r-{name}") for name in (B, C, D)]
    waits_ms = [each.retry_after_ms or 0 for each in told]
    assert [round(wait_ms / 1000) for wait_ms in waits_ms] == [3, 6, 9]
    again = refusal(worker.ask("again", C, budget_s=0.5), "again")
    assert again.retry_after_ms is not None
    assert round(again.retry_after_ms / 1000) == 9, "behind the two others that were told a time"
    worker.now_s += 12.0
    late = refusal(worker.ask("late", B, budget_s=0.5), "late")
    assert round((late.retry_after_ms or 0) / 1000) == 3, "nobody is counted on for ever"


def test_who_floods_with_versions_delays_others_by_as_many_as_they_want_themselves() -> None:
    worker = Worker(num_slots=1, sequences_max=8)
    worker.make_hot(0, A)
    worker.ask("a", A)
    for name in (B, C):
        worker.ask(f"flood-{name}", name)
    refused = refusal(worker.ask("g", D, budget_s=0.5, tenant=GLOBEX), "g")
    assert round((refused.retry_after_ms or 0) / 1000) == 6


def test_turns_are_learnt_while_versions_wait() -> None:
    worker = Worker(num_slots=1, sequences_max=8)
    worker.make_hot(0, A)
    worker.ask("a", A)
    for name in (B, C, D):
        worker.ask(f"w-{name}", name)
    for before, name in ((A, B), (B, C), (C, D)):
        worker.tell(Released(RequestId("a" if before == A else f"w-{before}")))
        worker.tell(Unloaded(0, before))
        worker.now_s += 7.0
        worker.tell(Loaded(0, name, 10, 2.0))
    assert worker.dispatcher.outlook.times.turn_of_slots.predict().expected_s == 7.0


def test_who_comes_when_told_to_is_let_in_where_it_may_be_expected_to_do() -> None:
    def came(told_for_s: float, tenant: TenantId = ACME) -> list[Effect]:
        worker = Worker(num_slots=1, sequences_max=8)
        worker.make_hot(0, A)
        worker.ask("a", A)
        worker.ask("b", B)
        refused = refusal(worker.ask("c", C, budget_s=0.5), "c")
        assert round((refused.retry_after_ms or 0) / 1000) == 6
        worker.now_s += told_for_s
        return worker.ask("again", C, budget_s=7.0, tenant=tenant)  # expected after 6.1 s, safe after 7.6 s

    assert came(6.0) == []
    assert refusal(came(3.0), "again").code == "adapter_cold"
    assert refusal(came(9.0), "again").code == "adapter_cold"
    assert refusal(came(6.0, GLOBEX), "again").code == "adapter_cold"
