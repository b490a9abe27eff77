"""What an operator is told of one request."""

from typing import Any

from hotset.control.explaining import explained
from hotset.control.on_call_answers import RequestAnswer
from hotset.control.witnesses import RequestSeen
from hotset.core.ids import BaseName, Digest, EngineName, RequestId, TenantId, WorkerId
from hotset.core.on_call import RequestAtWorker, RequestEntry, Unreached
from hotset.core.residency_report import SlotEvent, WorkerReport
from tests.support.installation import request_entry

BASE, SMOL = Digest("sha256:b"), BaseName("smol")
A, B = EngineName("hs-a"), EngineName("hs-b")
NAMES = {A: "acme/a@1", B: "globex/b@3"}
NOW_S = 1000.0
R = RequestId("req-1")
W1, W2 = WorkerId("w1"), WorkerId("w2")
WORKERS = [
    WorkerReport(base=SMOL, worker=W1, engine="embedded 1"),
    WorkerReport(base=SMOL, worker=W2, engine="embedded 2"),
]


def at_worker(worker: WorkerId | None = W2, *, age_s: float = 100.0, **parts: Any) -> RequestAtWorker:
    return RequestAtWorker(worker=worker, age_s=age_s, version=A, **{"lane": "loading", "waited_s": 1.5, **parts})


def told(
    entry: RequestEntry | None, *at_workers: RequestAtWorker, unreached: tuple[Unreached, ...] = ()
) -> RequestAnswer:
    seen = RequestSeen("g1" if entry else None, entry, list(at_workers), list(unreached))
    answer = explained(R, seen, {BASE: SMOL}, WORKERS, NAMES, NOW_S)
    assert answer is not None
    return answer


def test_route_gateway_worker_and_who_evicted_it_are_named() -> None:
    evicted = SlotEvent(kind="evicted", version=A, cause="borrow", by=TenantId("globex"), successor=B, age_s=150.0)
    loaded = SlotEvent(kind="loaded", version=A, tier="warm", seconds=0.25, age_s=98.5)
    answer = told(request_entry(worker="w2"), at_worker(evicted=evicted, loaded=loaded))
    assert answer.route == "support -> acme/a@1 on smol"
    assert (answer.gateway, answer.worker, answer.engine) == ("g1", "w2", "embedded 2")
    assert answer.evicted is not None
    assert answer.loaded is not None
    assert (answer.evicted.at_s, answer.evicted.cause, answer.evicted.by) == (850.0, "borrow", "globex")
    assert answer.evicted.made_room_for == "globex/b@3"
    assert (answer.loaded.at_s, answer.loaded.tier, answer.loaded.seconds) == (901.5, "warm", 0.25)


def test_waits_add_up_from_the_whole_body_on() -> None:
    waits = told(request_entry()).waits
    assert (waits.queue_s, waits.load_s, waits.prompt_s, waits.answer_s, waits.total_s) == (0.5, 1.0, 0.5, 3.0, 5.0)
    waits = told(request_entry(queue_s=None, load_s=None, first_token_s=None)).waits
    assert (waits.queue_s, waits.prompt_s, waits.answer_s, waits.total_s) == (None, None, None, 5.0)


def test_a_request_that_one_worker_refused_and_another_took_shows_both_in_order() -> None:
    refused = at_worker(W1, age_s=100.2, code="engine_unavailable", waited_s=0.1)
    answer = told(request_entry(worker="w2"), at_worker(age_s=100.1), refused)
    assert [(each.worker, each.code) for each in answer.at_workers] == [("w1", "engine_unavailable"), ("w2", "")]
    assert answer.worker == "w2"
    # Nobody took it: the last that refused it is named.
    assert told(request_entry(code="slots_full"), refused).worker == "w1"


def test_of_the_base_and_of_one_that_was_refused_early_there_is_no_version() -> None:
    of_base = told(request_entry(adapter="", version=0))
    assert (of_base.route, of_base.evicted, of_base.engine) == ("support -> smol", None, "embedded 1")
    early = told(request_entry(adapter="", version=0, alias="", base="", total_s=0.0))
    assert (early.route, early.worker, early.engine) == (" -> nothing", None, None)


def test_what_only_a_worker_remembers_is_told_as_far_as_it_goes() -> None:
    gone = Unreached("gateway", "g2", "not linked to control")
    answer = told(None, at_worker(), unreached=(gone,))
    assert (answer.route, answer.gateway, answer.worker) == (" -> acme/a@1", None, "w2")
    assert answer.waits.total_s is None
    assert [(each.role, each.name) for each in answer.unreached] == [("gateway", "g2")]


def test_only_those_who_might_know_more_are_named_as_not_reached() -> None:
    gone = (Unreached("gateway", "g2", "r"), Unreached("worker", "w1", "r"), Unreached("worker", "w2", "r"))
    assert [each.name for each in told(request_entry(worker="w2"), unreached=gone).unreached] == ["w2"]
    assert [each.name for each in told(request_entry(), unreached=gone).unreached] == ["w1", "w2"]


def test_a_request_that_nobody_knows_is_not_explained() -> None:
    assert explained(R, RequestSeen(), {}, [], {}, NOW_S) is None
