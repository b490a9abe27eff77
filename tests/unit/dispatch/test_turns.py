"""Tenants that hold no slot beside borrowers that are never idle: they wait a bounded time, and take turns."""

from hotset.core.ids import TenantId
from hotset.core.quotas import Quota
from hotset.residency.events import Load, Quotas, TimePassed, Unload, Unloaded
from hotset.residency.room import TURN_S
from tests.unit.dispatch.test_dispatcher import ACME, GLOBEX, A, B, C, Worker


def always_busy(worker: Worker, *, slots: int, num_turns: int) -> None:
    """Let globex keep versions A, B, … busy in every slot: a new request comes before the last one ends."""
    for number in range(num_turns):
        for slot, name in enumerate((A, B)[:slots]):
            worker.ask(f"{name}{number}", name, GLOBEX)
            if number == 0:
                worker.load(slot, name)
            else:
                worker.release(f"{name}{number - 1}")


def test_a_tenant_without_a_slot_gets_one_of_a_borrower_that_is_never_idle_after_a_turn() -> None:
    worker = Worker(num_slots=2, sequences_max=9)
    always_busy(worker, slots=2, num_turns=1)
    assert worker.ask("c", C, ACME) == []
    began_s = worker.now_s
    num_turns = 0
    while not (effects := worker.tell(TimePassed())) and num_turns < 40:
        num_turns += 1
        worker.ask(f"a{num_turns}", A, GLOBEX)
        worker.ask(f"b{num_turns}", B, GLOBEX)
        worker.release(f"a{num_turns - 1}" if num_turns > 1 else "hs-a0")
        worker.release(f"b{num_turns - 1}" if num_turns > 1 else "hs-b0")
        if worker.dispatcher.residency.state.held.get(ACME):
            break
    assert worker.dispatcher.residency.state.held == {GLOBEX: 1, ACME: 1}
    assert TURN_S <= worker.now_s - began_s <= TURN_S + 6
    assert not [effect for effect in effects if isinstance(effect, Unload)], "what runs there runs to its end"


def test_its_turn_comes_by_time_alone() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    always_busy(worker, slots=1, num_turns=1)
    worker.ask("c", C, ACME)
    due_s = worker.now_s + TURN_S
    while worker.now_s < due_s:
        assert worker.dispatcher.look_again_at_s is not None
        worker.now_s = max(worker.now_s, worker.dispatcher.look_again_at_s - 1.0)
        worker.tell(TimePassed())
    assert due_s <= worker.now_s <= due_s + 1.0
    assert worker.dispatcher.residency.state.slots[0].successor == C
    assert worker.release("hs-a0") == [Unload(0, A, "borrow")]


def test_no_turn_is_taken_from_a_reserve() -> None:
    """I5."""
    worker = Worker(num_slots=1, sequences_max=9)
    worker.tell(Quotas({GLOBEX: Quota(reserve_slots=1)}))
    always_busy(worker, slots=1, num_turns=1)
    worker.ask("c", C, ACME)
    worker.now_s += 10 * TURN_S
    worker.tell(TimePassed())
    assert worker.dispatcher.residency.state.held == {GLOBEX: 1}
    assert worker.dispatcher.look_again_at_s is None


def test_a_version_has_its_turn_before_the_next_tenant_has_one() -> None:
    """Many that wait take turns of at least so long, and no more often."""
    worker = Worker(num_slots=1, sequences_max=9)
    always_busy(worker, slots=1, num_turns=1)
    for tenant, name in ((ACME, B), (TenantId("initech"), C)):
        worker.ask(f"{tenant}", name, tenant)
    worker.now_s += 2 * TURN_S
    worker.tell(TimePassed())
    assert worker.dispatcher.residency.state.held == {ACME: 1}
    assert worker.release("hs-a0") == [Unload(0, A, "borrow")]
    assert worker.tell(Unloaded(0, A)) == [Load(0, B)]
    worker.load(0, B)
    hot_since_s = worker.now_s
    worker.tell(TimePassed())
    assert worker.dispatcher.residency.state.held == {ACME: 1}
    worker.now_s = hot_since_s + TURN_S
    worker.tell(TimePassed())
    assert worker.dispatcher.residency.state.held == {TenantId("initech"): 1}
