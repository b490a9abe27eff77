"""What a request waits for, as whoever gives it up after a while tells it."""

from hotset.core.ids import RequestId
from hotset.dispatch.slot_finder import PATIENCE_S
from hotset.residency.events import Load, TimePassed, Unload, Unloaded
from tests.unit.dispatch.test_dispatcher import A, B, Worker, dispatch


def test_who_was_given_a_slot_in_which_others_still_run_waits_for_a_slot_as_before() -> None:
    worker = Worker(num_slots=1, sequences_max=9)
    worker.ask("a", A)
    worker.load(0, A)
    worker.ask("b", B)
    b = RequestId("b")
    assert (worker.dispatcher.is_wanting(b), worker.dispatcher.waits_for_slot(b)) == (True, True)
    worker.now_s += PATIENCE_S
    assert worker.tell(TimePassed()) == []
    assert (worker.dispatcher.is_wanting(b), worker.dispatcher.waits_for_slot(b)) == (False, True)
    assert worker.release("a") == [Unload(0, A, "own")]
    assert not worker.dispatcher.waits_for_slot(b)
    assert worker.tell(Unloaded(0, A)) == [Load(0, B)]
    assert worker.load(0, B) == dispatch("b")
    assert not worker.dispatcher.waits_for_slot(b)
