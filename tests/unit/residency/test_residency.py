"""The residency policy, event by event; after each one the invariants are re-derived."""

import pytest

from hotset.core.ids import EngineName, RequestId, TenantId
from hotset.core.quotas import Quota
from hotset.residency import invariants
from hotset.residency.events import (
    Count,
    Counted,
    Discard,
    Dispatch,
    Effect,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadFailed,
    Lost,
    Permitted,
    Refuse,
    Released,
    Requested,
    Unload,
    Unloaded,
)
from hotset.residency.residency import Residency
from hotset.residency.slots import SlotState
from hotset.residency.steps import start_unload

A, B, C, D = (EngineName(f"hs-{letter}") for letter in "abcd")
ACME = TenantId("acme")
FULL = "Your adapters hold every slot that you may take; all of them are in use."


class Worker:
    """A residency with a clock of its own, checked after every event."""

    def __init__(self, num_slots: int = 2, warm_bytes_max: int = 1000) -> None:
        self.residency = Residency(
            num_slots=num_slots,
            warm_bytes_max=warm_bytes_max,
            load_retry_s=5.0,
            default_quota=Quota(limit_slots=num_slots),
        )
        self.now_s = 0.0
        self.tell(Permitted(frozenset({A, B, C, D})))

    def tell(self, event: Event) -> list[Effect]:
        self.now_s += 1.0
        effects = self.residency.handle(event, self.now_s)
        invariants.check(self.residency.state)
        return effects

    def ask(self, request: str, name: EngineName | None) -> list[Effect]:
        return self.tell(Requested(RequestId(request), name, ACME))

    def release(self, request: str) -> list[Effect]:
        return self.tell(Released(RequestId(request)))

    def warm_up(self, *names: EngineName) -> None:
        """Load versions into slots 0, 1, … and leave them idle."""
        for index, name in enumerate(names):
            assert self.ask(f"warm-{name}", name) == [Load(index, name)]
            assert self.tell(Loaded(index, name, 10)) == [Dispatch(RequestId(f"warm-{name}"))]
            self.release(f"warm-{name}")

    def state_of(self, index: int) -> SlotState:
        return self.residency.state.slots[index].state


def test_the_base_needs_no_slot() -> None:
    worker = Worker(num_slots=1)
    assert worker.ask("r1", None) == [Dispatch(RequestId("r1"))]
    assert worker.release("r1") == []


def test_a_cold_version_loads_once_for_all_its_waiters() -> None:
    worker = Worker()
    assert worker.ask("r1", A) == [Load(0, A)]
    assert worker.ask("r2", A) == []
    assert worker.tell(Loaded(0, A, 10)) == [Dispatch(RequestId("r1")), Dispatch(RequestId("r2"))]
    assert worker.ask("r3", A) == [Dispatch(RequestId("r3"))]


def test_without_any_gaps_seen_the_one_asked_for_longest_ago_makes_room() -> None:
    worker = Worker()
    worker.warm_up(B, A)
    assert worker.ask("r2", C) == [Unload(0, B, "own")]
    assert worker.tell(Unloaded(0, B)) == [Load(0, C)]
    assert worker.tell(Loaded(0, C, 10)) == [Dispatch(RequestId("r2"))]


def test_ties_in_age_break_by_name() -> None:
    residency = Residency(num_slots=2, warm_bytes_max=1000, default_quota=Quota(limit_slots=2))
    residency.handle(Permitted(frozenset({A, B, C})), 0.0)
    for index, name in enumerate((B, A)):
        residency.handle(Requested(RequestId(name), name, ACME), 1.0)
        residency.handle(Loaded(index, name, 1), 1.0)
        residency.handle(Released(RequestId(name)), 1.0)
    assert residency.handle(Requested(RequestId("r"), C, ACME), 2.0) == [Unload(1, A, "own")]


def test_a_leased_version_is_never_unloaded() -> None:
    """I3."""
    worker = Worker(num_slots=1)
    worker.ask("r1", A)
    worker.tell(Loaded(0, A, 10))
    assert worker.ask("r2", B) == [Refuse(RequestId("r2"), "slots_full", FULL)]
    worker.release("r1")
    assert worker.ask("r3", B) == [Unload(0, A, "own")]


def test_a_new_version_serves_its_first_waiter_before_it_may_go() -> None:
    """I4."""
    worker = Worker(num_slots=1)
    worker.ask("r1", A)
    assert worker.ask("r2", B) == [Refuse(RequestId("r2"), "slots_full", FULL)]
    assert worker.tell(Loaded(0, A, 10)) == [Dispatch(RequestId("r1"))]
    assert worker.ask("r3", B) == [Refuse(RequestId("r3"), "slots_full", FULL)]


def test_a_waiter_that_gives_up_leaves_the_version_evictable() -> None:
    worker = Worker(num_slots=1)
    worker.ask("r1", A)
    worker.release("r1")
    assert worker.tell(Loaded(0, A, 10)) == []
    assert worker.ask("r2", B) == [Unload(0, A, "own")]


def test_a_request_for_what_is_leaving_takes_another_slot() -> None:
    worker = Worker()
    worker.warm_up(A, B)
    assert worker.ask("r1", C) == [Unload(0, A, "own")]
    assert worker.ask("r2", A) == [Unload(1, B, "own")]
    assert worker.tell(Unloaded(0, A)) == [Load(0, C)]
    assert worker.tell(Unloaded(1, B)) == [Load(1, A)]


def test_a_slot_that_is_emptying_is_promised_before_another_is_evicted() -> None:
    worker = Worker()
    worker.warm_up(A, B)
    assert worker.tell(Permitted(frozenset({B, C}))) == [Unload(0, A, "withdrawn")]
    assert worker.ask("r1", C) == []
    assert worker.tell(Unloaded(0, A)) == [Discard(A), Load(0, C)]


def test_a_failed_load_refuses_its_waiters_and_is_not_tried_again_at_once() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.ask("r2", A)
    assert worker.tell(LoadFailed(0, A, "load_failed", "why")) == [
        Refuse(RequestId("r1"), "load_failed", "why"),
        Refuse(RequestId("r2"), "load_failed", "why"),
        Discard(A),
        Count(),
    ]
    assert worker.ask("r3", A) == [Refuse(RequestId("r3"), "load_failed", "")]
    worker.now_s += 10
    assert worker.ask("r4", A) == [Load(0, A)]
    worker.tell(Loaded(0, A, 10))
    assert worker.residency.is_hot(A)


def test_a_withdrawn_version_takes_no_new_request_and_leaves_after_its_last_lease() -> None:
    """I11 and I12."""
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Loaded(0, A, 10))
    assert worker.tell(Permitted(frozenset({B}))) == []
    assert worker.state_of(0) is SlotState.CLOSING
    assert worker.ask("r2", A) == [Refuse(RequestId("r2"), "model_not_found", "")]
    assert worker.release("r1") == [Unload(0, A, "withdrawn")]
    assert worker.tell(Unloaded(0, A)) == [Discard(A)]


def test_a_withdrawn_version_refuses_its_waiters() -> None:
    worker = Worker()
    worker.ask("r1", A)
    assert worker.tell(Permitted(frozenset({B}))) == [Refuse(RequestId("r1"), "model_not_found", "")]
    assert worker.tell(Loaded(0, A, 10)) == [Unload(0, A, "withdrawn")]
    assert worker.tell(Unloaded(0, A)) == [Discard(A)]


def test_a_withdrawn_successor_gives_its_promise_back() -> None:
    worker = Worker(num_slots=1)
    worker.warm_up(A)
    assert worker.ask("r1", B) == [Unload(0, A, "own")]
    assert worker.tell(Permitted(frozenset({A}))) == [Refuse(RequestId("r1"), "model_not_found", "")]
    assert worker.tell(Unloaded(0, A)) == []
    assert worker.state_of(0) is SlotState.EMPTY


def test_a_version_permitted_again_before_it_left_is_hot_again() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Loaded(0, A, 10))
    worker.tell(Permitted(frozenset()))
    assert worker.tell(Permitted(frozenset({A}))) == []
    assert worker.ask("r2", A) == [Dispatch(RequestId("r2"))]


def test_a_lost_load_that_came_through_serves_its_waiters() -> None:
    worker = Worker()
    worker.ask("r1", A)
    assert worker.tell(Lost(0, A)) == [Count()]
    assert worker.ask("r2", A) == []
    assert worker.tell(Counted(frozenset({A}))) == [Dispatch(RequestId("r1")), Dispatch(RequestId("r2"))]


def test_a_lost_load_that_did_not_come_through_refuses_its_waiters() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Lost(0, A))
    assert worker.tell(Counted(frozenset())) == [Refuse(RequestId("r1"), "load_failed", "the load was lost")]
    assert worker.state_of(0) is SlotState.EMPTY


def test_a_load_that_came_in_after_it_was_given_up_is_unloaded() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Lost(0, A))
    worker.tell(Counted(frozenset()))
    assert worker.tell(Counted(frozenset({A}))) == [Unload(0, A, "orphan")]
    assert worker.tell(Unloaded(0, A)) == []


def test_files_of_a_version_whose_lost_load_may_still_land_stay_until_the_engine_let_go_of_it() -> None:
    worker = Worker(warm_bytes_max=10)
    worker.ask("r1", A)
    worker.tell(Lost(0, A, warm_bytes=10))
    worker.tell(Counted(frozenset()))
    worker.ask("r2", B)
    assert worker.tell(Loaded(0, B, 10)) == [Dispatch(RequestId("r2"))]  # over the bound, and A may be in the engine
    worker.ask("r3", C)
    assert worker.tell(LoadFailed(1, C, "load_failed", "no free slot"))[-1] == Count()
    assert worker.tell(Counted(frozenset({A, B}))) == [Unload(1, A, "orphan")]
    assert worker.tell(Unloaded(1, A)) == [Discard(A)]


def test_a_lost_load_is_in_doubt_even_after_the_version_was_loaded_and_unloaded_anew() -> None:
    worker = Worker(num_slots=1, warm_bytes_max=10)
    worker.ask("r1", A)
    worker.tell(Lost(0, A, warm_bytes=10))
    worker.tell(Counted(frozenset()))
    worker.warm_up(A)
    worker.ask("r2", B)
    worker.tell(Unloaded(0, A))
    assert worker.tell(Loaded(0, B, 10)) == [Dispatch(RequestId("r2"))]  # the first load of A may land even now
    worker.tell(EngineGone())
    worker.ask("r3", B)
    assert Discard(A) in worker.tell(Loaded(0, B, 10))


def test_a_failed_load_of_a_version_that_may_be_in_the_engine_deletes_nothing() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Lost(0, A))
    worker.tell(Counted(frozenset()))
    worker.ask("r2", A)
    refused = Refuse(RequestId("r2"), "load_failed", "")
    assert worker.tell(LoadFailed(0, A, "load_failed", "")) == [refused, Count()]
    worker.tell(EngineGone())
    worker.tell(Permitted(frozenset()))
    assert A not in worker.residency.state.warm


def test_a_lost_unload_is_asked_again_while_the_engine_still_holds_it() -> None:
    worker = Worker(num_slots=1)
    worker.warm_up(A)
    worker.ask("r1", B)
    assert worker.tell(Lost(0, A)) == [Count()]
    assert worker.tell(Counted(frozenset({A}))) == [Unload(0, A, "own")]
    assert worker.tell(Unloaded(0, A)) == [Load(0, B)]


def test_a_lost_unload_that_came_through_goes_on_with_its_successor() -> None:
    worker = Worker(num_slots=1)
    worker.warm_up(A)
    worker.ask("r1", B)
    worker.tell(Lost(0, A))
    assert worker.tell(Counted(frozenset())) == [Load(0, B)]
    assert worker.tell(Loaded(0, B, 10)) == [Dispatch(RequestId("r1"))]


def test_a_lost_unload_without_successor_leaves_an_empty_slot() -> None:
    worker = Worker(num_slots=1)
    worker.warm_up(A)
    worker.tell(Permitted(frozenset({B})))
    worker.tell(Lost(0, A))
    assert worker.tell(Counted(frozenset())) == []
    assert worker.state_of(0) is SlotState.EMPTY


def test_an_unknown_slot_is_not_given_away() -> None:
    worker = Worker(num_slots=1)
    worker.ask("r1", A)
    worker.tell(Lost(0, A))
    assert worker.ask("r2", B) == [Refuse(RequestId("r2"), "slots_full", FULL)]


def test_a_dead_engine_refuses_waiters_and_empties_every_slot() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Loaded(0, A, 10))
    worker.ask("r2", B)
    assert worker.tell(EngineGone()) == [Refuse(RequestId("r2"), "engine_unavailable", "")]
    assert worker.release("r1") == []
    assert all(slot.state is SlotState.EMPTY for slot in worker.residency.state.slots)


def test_late_outcomes_change_nothing() -> None:
    worker = Worker()
    worker.warm_up(A)
    for late in (
        Loaded(0, A, 10),
        Loaded(1, B, 10),
        LoadFailed(0, A, "load_failed", ""),
        Unloaded(0, A),
        Lost(0, A),
        Released(RequestId("nobody")),
    ):
        assert worker.tell(late) == []
    assert worker.residency.is_hot(A)


def test_warm_files_are_bounded_and_those_in_slots_stay() -> None:
    worker = Worker(num_slots=1, warm_bytes_max=25)
    worker.warm_up(A)
    for name, leaving in ((B, A), (C, B)):
        worker.ask(f"r-{name}", name)
        worker.tell(Unloaded(0, leaving))
        effects = worker.tell(Loaded(0, name, 10))
        worker.release(f"r-{name}")
    assert effects == [Dispatch(RequestId("r-hs-c")), Discard(A)]
    assert set(worker.residency.state.warm) == {B, C}


def test_asking_twice_under_one_id_is_our_own_bug() -> None:
    worker = Worker()
    worker.ask("r1", None)
    with pytest.raises(AssertionError, match="asked twice"):
        worker.ask("r1", None)


def test_the_invariants_see_a_version_taken_from_under_its_request() -> None:
    worker = Worker()
    worker.ask("r1", A)
    worker.tell(Loaded(0, A, 10))
    worker.residency.state.slots[0].name = B
    with pytest.raises(AssertionError, match="I1"):
        invariants.check(worker.residency.state)
    worker.residency.state.slots[0].state = SlotState.UNLOADING
    with pytest.raises(AssertionError, match="I3"):
        invariants.check(worker.residency.state)


def test_unloading_under_a_running_request_stops_at_the_assertion() -> None:
    worker = Worker()
    worker.warm_up(A)
    worker.ask("r1", A)
    state = worker.residency.state
    state.move(state.slots[0], SlotState.CLOSING, A)
    with pytest.raises(AssertionError, match="I3"):
        start_unload(state, state.slots[0])
