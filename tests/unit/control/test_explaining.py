"""What an operator is told of one request."""

from typing import Any

from hotset.control.explaining import explained
from hotset.core.ids import BaseName, Digest, EngineName, TenantId
from hotset.core.residency_report import SlotEvent, WorkerReport

BASE, SMOL = Digest("sha256:b"), BaseName("smol")
A, B = EngineName("hs-a"), EngineName("hs-b")
NAMES = {A: "acme/a@1", B: "globex/b@3"}
NOW_S = 1000.0


def entry(**parts: Any) -> dict[str, Any]:
    line = {
        "request_id": "r",
        "at": 900.0,
        "tenant": "acme",
        "alias": "support",
        "adapter": "acme/a",
        "version": 1,
        "base": BASE,
        "lane": "loading",
        "queue_s": 0.5,
        "load_s": 1.0,
        "first_token_s": 2.0,
        "total_s": 5.0,
    }
    return {**line, **parts}


def evicted(at_s: float, version: EngineName = A, **parts: Any) -> SlotEvent:
    return SlotEvent(kind="evicted", version=version, age_s=NOW_S - at_s, **parts)


def loaded(at_s: float, version: EngineName = A) -> SlotEvent:
    return SlotEvent(kind="loaded", version=version, age_s=NOW_S - at_s, tier="warm", seconds=0.25)


def told(line: dict[str, Any], *events: SlotEvent) -> Any:
    workers = [WorkerReport(base=SMOL, engine="embedded 1", events=events), WorkerReport(base=BaseName("other"))]
    return explained(line, {BASE: SMOL}, workers, NAMES, NOW_S)


def test_the_last_eviction_before_and_the_first_load_after_are_named() -> None:
    by = TenantId("globex")
    answer = told(
        entry(),
        evicted(800.0, cause="own"),
        loaded(810.0),
        evicted(850.0, cause="borrow", by=by, successor=B),
        evicted(860.0, B, cause="own"),
        loaded(901.5),
        loaded(950.0),
        evicted(960.0, cause="own"),
    )
    assert answer.route == "support -> acme/a@1 on smol"
    assert answer.engine == "embedded 1"
    assert (answer.evicted.at_s, answer.evicted.cause, answer.evicted.by) == (850.0, "borrow", "globex")
    assert answer.evicted.made_room_for == "globex/b@3"
    assert (answer.loaded.at_s, answer.loaded.tier, answer.loaded.seconds) == (901.5, "warm", 0.25)


def test_waits_add_up_from_the_whole_body_on() -> None:
    waits = told(entry()).waits
    assert (waits.queue_s, waits.load_s, waits.prompt_s, waits.answer_s, waits.total_s) == (0.5, 1.0, 0.5, 3.0, 5.0)
    waits = told(entry(queue_s=None, load_s=None, first_token_s=None)).waits
    assert (waits.queue_s, waits.prompt_s, waits.answer_s, waits.total_s) == (None, None, None, 5.0)


def test_a_hot_request_one_of_the_base_and_one_that_was_refused_early_had_no_eviction() -> None:
    assert told(entry(lane="hot"), evicted(800.0)).evicted is None
    of_base = told(entry(adapter="", version=0, lane="loading"), evicted(800.0))
    assert (of_base.route, of_base.evicted) == ("support -> smol", None)
    early = told({"request_id": "r", "at": 1.0, "tenant": "acme", "adapter": "", "version": 0})
    assert (early.route, early.engine, early.waits.total_s) == (" -> nothing", None, None)
