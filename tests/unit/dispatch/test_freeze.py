"""A freeze: what is in a slot or on its way goes on being served, everything else is refused at once."""

from hotset.core.quotas import Quota
from hotset.dispatch.dispatcher import Frozen
from hotset.residency.events import Dispatch, Loaded, Quotas, Refuse, Released, Unload
from tests.unit.dispatch.test_budget import GLOBEX, A, B, C, D, Worker, refusal

FREEZE, UNFREEZE = Frozen(is_frozen=True), Frozen(is_frozen=False)


def frozen(*, num_slots: int = 4) -> Worker:
    """A worker with A hot and B loading that is frozen then."""
    worker = Worker(num_slots=num_slots)
    worker.make_hot(0, A)
    worker.ask("b", B)
    assert worker.tell(FREEZE) == []
    return worker


def test_what_is_hot_and_the_bare_base_are_served() -> None:
    worker = frozen()
    assert worker.ask("hot", A) == [Dispatch("hot")]
    assert worker.ask("base", None) == [Dispatch("base")]


def test_a_load_that_has_begun_ends_and_serves_who_waits_and_who_comes() -> None:
    worker = frozen()
    assert worker.ask("b2", B) == []
    assert worker.tell(Loaded(1, B, 10, 2.0)) == [Dispatch("b"), Dispatch("b2")]


def test_a_version_in_no_slot_is_refused_at_once_within_a_budget_or_without() -> None:
    worker = frozen()
    assert worker.ask("c", C) == [Refuse("c", "loads_frozen", "")]
    assert worker.ask("c2", C, budget_s=0.1) == [Refuse("c2", "loads_frozen", "")]
    assert worker.ask("c3", C, budget_s=60.0) == [Refuse("c3", "loads_frozen", "")]


def test_those_that_wait_for_a_slot_are_refused_when_it_begins() -> None:
    worker = Worker(num_slots=1)
    worker.make_hot(0, A)
    worker.ask("busy", A)
    assert worker.ask("wants", B) == []
    assert refusal(worker.tell(FREEZE), "wants").code == "loads_frozen"
    assert worker.tell(Released("busy")) == []  # its slot is free to be taken, and nobody may


def test_a_slot_is_not_taken_back_for_an_owed_tenant() -> None:
    worker = Worker(num_slots=1)
    worker.tell(Quotas({GLOBEX: Quota(reserve_slots=1)}))
    worker.make_hot(0, A)
    worker.tell(FREEZE)
    assert worker.ask("owed", B, tenant=GLOBEX) == [Refuse("owed", "loads_frozen", "")]
    worker.tell(UNFREEZE)
    assert worker.ask("owed again", B, tenant=GLOBEX) == [Unload(0, A, "reserve")]


def test_those_sent_back_to_want_a_slot_by_a_reclaim_under_way_are_refused_too() -> None:
    worker = Worker(num_slots=1, sequences_max=1)
    worker.tell(Quotas({GLOBEX: Quota(reserve_slots=1)}))
    worker.make_hot(0, A)
    for request in ("runs", "queued"):
        worker.ask(request, A)
    worker.tell(FREEZE)
    assert worker.ask("more", A) == []
    worker.tell(UNFREEZE)
    worker.ask("owed", B, tenant=GLOBEX)
    assert {effect.request for effect in worker.tell(FREEZE) if isinstance(effect, Refuse)} == {"queued", "more"}


def test_after_it_everything_is_as_it_was() -> None:
    worker = frozen()
    worker.ask("c", C)
    assert worker.tell(UNFREEZE) == []
    assert [type(effect).__name__ for effect in worker.ask("d", D)] == ["Load"]
