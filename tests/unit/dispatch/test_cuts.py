"""What keeps a lent slot from its owner is cut in its time, wherever it stands."""

from hotset.core.ids import RequestId
from hotset.core.quotas import Quota
from hotset.residency.events import Cut, Quotas, TimePassed, Unload
from hotset.residency.reclaim import Reclaim
from tests.unit.dispatch.test_dispatcher import ACME, GLOBEX, A, B, Worker, dispatch


def test_what_waits_for_its_place_when_a_lent_slot_is_cut_is_served_first_and_cut_after_as_long_again() -> None:
    """I4, and then I5: let run without a bound, it would keep the slot from its owner for as long as it likes."""
    worker = Worker(num_slots=1, sequences_max=1, reclaim=Reclaim("cut", 5.0))
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("base", None)
    worker.ask("b1", B, GLOBEX)
    worker.load(0, B)
    assert worker.ask("a", A) == []
    at_s = worker.now_s + 5.0
    assert worker.dispatcher.look_again_at_s == at_s
    worker.now_s = at_s
    assert worker.tell(TimePassed()) == []  # b1 has no place yet
    assert worker.release("base") == dispatch("b1")
    assert worker.dispatcher.look_again_at_s == worker.now_s + 5.0
    worker.now_s += 3.9
    assert worker.tell(TimePassed()) == []
    assert worker.tell(TimePassed()) == [Cut(RequestId("b1"))]
    assert worker.tell(TimePassed()) == []
    assert worker.release("b1") == [Unload(0, B, "reserve")]


def test_what_got_its_place_before_its_lent_slot_is_cut_has_no_longer_than_that() -> None:
    worker = Worker(num_slots=1, sequences_max=1, reclaim=Reclaim("cut", 5.0))
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("base", None)
    worker.ask("b1", B, GLOBEX)
    worker.load(0, B)
    worker.ask("a", A)
    due_s = worker.dispatcher.look_again_at_s or 0.0
    assert worker.release("base") == dispatch("b1")
    worker.now_s = due_s
    assert worker.tell(TimePassed()) == [Cut(RequestId("b1"))]


def test_a_cut_is_asked_for_when_its_time_has_come() -> None:
    worker = Worker(num_slots=1, sequences_max=9, reclaim=Reclaim("cut", 5.0))
    worker.tell(Quotas({ACME: Quota(reserve_slots=1)}))
    worker.ask("b1", B, GLOBEX)
    worker.load(0, B)
    worker.ask("a", A)
    worker.now_s = worker.dispatcher.look_again_at_s or 0.0
    assert worker.tell(TimePassed()) == [Cut(RequestId("b1"))]
    assert worker.release("b1") == [Unload(0, B, "reserve")]
