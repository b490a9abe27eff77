"""The storm's figures from clients made by hand."""

import pytest

from hotset.bench.asking import Answer
from hotset.bench.report import Section
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.storm_report import CONTROL, MISSES, STORM, StormTaken, Visit, build_report
from hotset.bench.workers import LoadSeen
from hotset.core.ids import EngineName

A, B = EngineName("hs-a"), EngineName("hs-b")


def answered(first_token_s: float) -> Answer:
    return Answer(0.0, first_token_s=first_token_s)


def refused(retry_after_ms: int, decided_s: float = 0.001) -> Answer:
    return Answer(0.0, decided_s=decided_s, code="adapter_cold", is_refused=True, retry_after_ms=retry_after_ms)


def taken(*visits: Visit, loads: tuple[LoadSeen, ...] = (), warm_s: float = 0.1) -> StormTaken:
    return StormTaken((warm_s,) * 20, visits, loads, budget_ms=1000)


def figure(section: Section, key: str, row: int = 0) -> float:
    found = section.rows[row].figures[key]
    assert found is not None
    return found.median


def test_who_was_admitted_refused_and_served_in_budget() -> None:
    storm = taken(
        Visit(answered(0.5)),
        Visit(answered(1.5)),
        Visit(refused(1000, decided_s=0.004), answered(0.2)),
        Visit(refused(1000), refused(500)),
    )
    outcomes = Outcomes[StormTaken]()
    for number in range(2):
        outcomes.add(Block(number, "", CONTROL), taken())
        outcomes.add(Block(number, "", STORM), storm)
        loads = (LoadSeen(A, is_fetch=True), LoadSeen(A, is_fetch=False), LoadSeen(B, is_fetch=True))
        outcomes.add(Block(number, "", MISSES), taken(Visit(answered(9.0)), loads=loads, warm_s=0.2))
    report = build_report({}, outcomes)
    budget, misses, warm = report.sections
    assert (figure(budget, "admitted"), figure(budget, "in_budget")) == (2.0, 50.0)
    assert (figure(budget, "refused"), figure(budget, "refusal")) == (2.0, pytest.approx(4.0))
    assert figure(budget, "returned") == 50.0
    assert (figure(misses, "fetches"), figure(misses, "loads"), figure(misses, "answered")) == (1.0, 2.0, 1.0)
    assert (figure(warm, "ratio", 1), figure(warm, "ratio", 2)) == (1.0, pytest.approx(2.0))
    assert "adapter_cold 2" in report.notes[1]
    assert report.notes[-1].endswith("1.00")


@pytest.mark.parametrize(
    ("visit", "error"),
    [
        (Visit(refused(1000), answered(0.1), hot_for_s=0.2), 0.25),  # ready after 0.8 s
        (Visit(refused(1000), answered(0.1)), 0.0),  # at once after its return
        (Visit(refused(1000), answered(1.1)), 0.5),  # a second later
        (Visit(refused(1000), refused(3000)), 0.75),
        (Visit(refused(1000), Answer(0.0, code="first_token_budget_exceeded")), 0.5),  # its budget of a second later
        (Visit(refused(1000), Answer(0.0, code="engine_unavailable", is_refused=True)), None),
    ],
)
def test_by_how_much_a_time_to_come_back_was_off(visit: Visit, error: float | None) -> None:
    assert taken(visit).errors() == ([] if error is None else [pytest.approx(error)])


def test_on_a_fleet_loads_are_left_out_and_warm_tenants_refused_are_told() -> None:
    outcomes = Outcomes[StormTaken]()
    for kind in (CONTROL, STORM, MISSES):
        outcomes.add(Block(0, "", kind), StormTaken((0.1,), (), (), 1000, 3 if kind == STORM else 0))
    report = build_report({}, outcomes, sees_loads=False)
    assert [column.key for column in report.sections[1].columns] == ["clients", "answered"]
    assert report.notes == (
        f"{STORM}: 3 requests of the warm tenants were refused or failed",
        "one round gives no bound",
    )


def test_without_a_storm_nothing_is_off_and_nobody_is_refused() -> None:
    outcomes = Outcomes[StormTaken]()
    for kind in (CONTROL, STORM, MISSES):
        outcomes.add(Block(0, "", kind), taken())
    report = build_report({}, outcomes)
    for key in ("error", "in_budget", "returned"):
        assert report.sections[0].rows[0].figures[key] is None, "of nobody there is no share"
    assert report.notes[-1] == "one round gives no bound"
    assert StormTaken((), (), (), 1000).warm_p95_s == 3600.0
