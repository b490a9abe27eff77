"""What is at home at a worker comes in before anybody asks, and after everything that somebody waits for."""

import pytest

from hotset.admission.fair_queue import FairQueue
from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.dispatch.dispatcher import Arrived, Dispatcher, Frozen, Told
from hotset.dispatch.prefetching import FetchFailed, Homes
from hotset.residency.events import (
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Fetch,
    Fetched,
    Load,
    Loaded,
    LoadFailed,
    Permitted,
    Quotas,
    Released,
    TimePassed,
)
from hotset.residency.residency import Residency
from hotset.routing.standing import HomeHere

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A, B, C, D = (EngineName(f"hs-{letter}") for letter in "abcd")


class Worker:
    """Two slots, room for ten versions' files; ACME is owed a slot."""

    def __init__(
        self, *, warm_versions_max: int = 10, loads_per_minute: float = 240.0, stall_ms: float = 1000.0
    ) -> None:
        residency = Residency(
            num_slots=2,
            warm_bytes_max=10 * warm_versions_max,
            loads_per_minute=loads_per_minute,
            stall_ms_per_s=stall_ms,
            default_quota=Quota(limit_slots=2),
        )
        self.residency = residency
        self.dispatcher = Dispatcher(residency, FairQueue(sequences_max=1), waiting_max=100)
        self.dispatcher.outlook.sizes = dict.fromkeys((A, B, C, D), 10)
        self.now_s = 0.0
        self.tell(Permitted(frozenset({A, B, C, D})))
        self.tell(Quotas({ACME: Quota(reserve_slots=1, limit_slots=2)}))

    def tell(self, event: Told) -> list[Effect]:
        effects = self.dispatcher.handle(event, self.now_s)
        self.dispatcher.check()
        return effects

    def ask(self, request: str, name: EngineName, tenant: TenantId = ACME) -> list[Effect]:
        return self.tell(Arrived(RequestId(request), name, tenant, 10, 1))

    def end(self, request: str) -> list[Effect]:
        return self.tell(Released(RequestId(request)))

    def come_home(self, *names: EngineName, busy: bool = False, owner: TenantId = ACME) -> list[Effect]:
        return self.tell(Homes(tuple(HomeHere(name, owner, is_busy=busy) for name in names)))


def test_files_come_one_version_at_a_time_in_order() -> None:
    worker = Worker()
    assert worker.come_home(A, B) == [Fetch(A, ACME)]
    assert worker.come_home(A, B) == [], "told again, it is on its way already"
    assert worker.tell(Fetched(A, ACME, 10)) == [Fetch(B, ACME)]
    assert worker.tell(Fetched(B, ACME, 10)) == []
    assert worker.come_home(A, B) == []
    assert dict(worker.residency.state.warm.items()) == {A: 10, B: 10}
    assert worker.ask("a", A) == [Load(0, A)]


def test_nothing_comes_while_somebody_waits_for_a_load_or_a_slot() -> None:
    worker = Worker()
    worker.ask("a", A)
    assert worker.come_home(C) == []
    worker.ask("b", B)
    worker.ask("d", D)  # no slot for it
    assert worker.tell(Loaded(0, A, 10)) == [Dispatch(RequestId("a"))]
    assert worker.tell(Loaded(1, B, 10)) == []
    assert worker.end("d") == [Fetch(C, ACME)]


def test_files_come_while_others_wait_for_a_place_but_loads_do_not() -> None:
    worker = Worker()
    worker.ask("b", B, GLOBEX)
    worker.tell(Loaded(0, B, 10))
    worker.ask("b2", B, GLOBEX)  # the engine takes one at a time
    assert worker.come_home(A, busy=True) == [Fetch(A, ACME)]
    assert worker.tell(Fetched(A, ACME, 10)) == []
    assert worker.end("b") == [Dispatch(RequestId("b2")), Load(1, A)]


def test_what_does_not_fit_beside_the_rest_is_left_out() -> None:
    worker = Worker(warm_versions_max=2)
    assert worker.come_home(A, B) == [Fetch(A, ACME)]
    assert worker.tell(Fetched(A, ACME, 10)) == [], "half of the store is for what somebody asked for"
    assert worker.come_home(B, C, busy=True, owner=GLOBEX) == [Fetch(B, GLOBEX)]
    assert worker.tell(Fetched(B, GLOBEX, 10)) == []
    assert set(worker.residency.state.warm) == {A, B}


def test_an_owners_limit_of_bytes_holds_for_what_nobody_asked_for() -> None:
    worker = Worker()
    worker.tell(Quotas({ACME: Quota(limit_slots=2, limit_bytes=15)}))
    assert worker.come_home(A, B, busy=True) == [Fetch(A, ACME)]
    assert worker.tell(Fetched(A, ACME, 10)) == []
    assert list(worker.residency.state.warm.charges()) == [(A, ACME, 10)]


def test_files_that_came_after_all_make_room_as_others_do() -> None:
    worker = Worker(warm_versions_max=1)
    worker.come_home(A, busy=True, owner=GLOBEX)
    worker.ask("b", B, GLOBEX)
    worker.tell(Loaded(0, B, 10))
    assert worker.tell(Fetched(A, ACME, 10)) == [Discard(A)]


def test_a_busy_version_is_loaded_into_an_empty_slot_of_its_owners_reserve() -> None:
    worker = Worker()
    worker.come_home(A, B, busy=True)
    (load,) = worker.tell(Fetched(A, ACME, 10))
    assert load == Load(0, A)
    assert isinstance(load, Load)
    assert load.is_prefetch
    assert worker.tell(Loaded(0, A, 10)) == [Fetch(B, ACME)]
    assert worker.tell(Fetched(B, ACME, 10)) == [], "its reserve is used up"
    assert worker.residency.state.held == {ACME: 1}
    assert worker.ask("a", A) == [Dispatch(RequestId("a"))]


def test_whoever_asks_meanwhile_gets_the_load_that_is_under_way() -> None:
    worker = Worker()
    worker.come_home(A, busy=True)
    worker.tell(Fetched(A, ACME, 10))
    assert worker.ask("a", A) == []
    assert worker.tell(Loaded(0, A, 10)) == [Dispatch(RequestId("a"))]


def test_no_load_where_no_slot_is_empty_or_nothing_is_owed() -> None:
    worker = Worker()
    worker.come_home(A, busy=True, owner=GLOBEX)
    assert worker.tell(Fetched(A, ACME, 10)) == [], "it has no reserve"
    for slot, name in enumerate((B, C)):
        worker.ask(name, name, GLOBEX)
        worker.tell(Loaded(slot, name, 10))
        worker.end(name)
    worker.come_home(D, busy=True)
    assert worker.tell(Fetched(D, ACME, 10)) == [], "idle slots are not taken from anybody for what nobody asked for"


def test_the_churn_budget_bounds_these_loads_too() -> None:
    worker = Worker(loads_per_minute=1.0)
    worker.ask("b", B)
    worker.tell(Loaded(0, B, 10))
    worker.end("b")
    worker.tell(Quotas({ACME: Quota(reserve_slots=2, limit_slots=2)}))
    while worker.residency.accounts.seconds_to_next_load(ACME, worker.now_s) == 0:
        worker.residency.accounts.charge_load(ACME, worker.now_s)
    worker.come_home(A, busy=True)
    assert worker.tell(Fetched(A, ACME, 10)) == []


def test_a_load_waits_for_the_stall_budget() -> None:
    worker = Worker(stall_ms=100.0)
    worker.ask("b", B, GLOBEX)
    worker.tell(Loaded(0, B, 10, stall_s=3.0))
    worker.end("b")
    worker.come_home(A, busy=True)
    assert worker.tell(Fetched(A, ACME, 10)) == []
    again_at_s = worker.dispatcher.look_again_at_s
    assert again_at_s is not None
    assert again_at_s > worker.now_s + 1.0
    worker.now_s = again_at_s
    assert worker.tell(TimePassed()) == [Load(1, A)]
    assert worker.dispatcher.look_again_at_s is None


@pytest.mark.parametrize("busy", [True, False])
def test_what_failed_is_left_to_the_first_request(busy: bool) -> None:
    worker = Worker()
    assert worker.come_home(A, B, busy=busy, owner=GLOBEX) == [Fetch(A, GLOBEX)]
    assert worker.tell(FetchFailed(A)) == [Fetch(B, GLOBEX)]
    worker.tell(Fetched(B, GLOBEX, 10))
    assert worker.come_home(A) == [Fetch(A, ACME)], "or to the next word of who is at home"
    assert worker.tell(FetchFailed(A)) == []


def test_a_load_that_failed_is_not_tried_again() -> None:
    worker = Worker()
    worker.come_home(A, busy=True)
    worker.tell(Fetched(A, ACME, 10))
    assert worker.tell(LoadFailed(0, A, "load_failed", ""))[0] == Discard(A)
    assert not any(isinstance(effect, Fetch | Load) for effect in worker.tell(TimePassed()))


def test_a_version_that_was_withdrawn_on_its_way_does_not_stay() -> None:
    worker = Worker()
    worker.come_home(A, B)
    assert worker.tell(Permitted(frozenset({C}))) == []
    assert worker.tell(Fetched(A, ACME, 10)) == [Discard(A)]
    assert worker.come_home(B) == []


def test_frozen_or_without_an_engine_nothing_comes() -> None:
    worker = Worker()
    worker.tell(Frozen(is_frozen=True))
    assert worker.come_home(A) == []
    assert worker.tell(Frozen(is_frozen=False)) == [Fetch(A, ACME)]
    worker.tell(EngineGone())
    assert worker.tell(TimePassed()) == []


def test_what_time_alone_does_not_end_is_not_looked_at_again_and_again() -> None:
    worker = Worker(stall_ms=100.0)
    worker.ask("b", B, GLOBEX)
    worker.tell(Loaded(0, B, 10, stall_s=3.0))
    worker.end("b")
    worker.come_home(A, busy=True)
    worker.tell(Fetched(A, ACME, 10))
    assert worker.dispatcher.look_again_at_s is not None
    worker.tell(Frozen(True))
    assert worker.dispatcher.look_again_at_s is None
    worker.now_s += 1000.0
    assert worker.tell(Frozen(False)) == [Load(1, A)]
