import msgspec
import pytest

from hotset.bench.gateway_report import Measured, build_report
from hotset.bench.gateway_sides import DIRECT, HOTSET
from hotset.bench.load_job import Outcome
from hotset.bench.procfs import CpuTime
from hotset.bench.report import Report, Section
from hotset.bench.rounds import Outcomes, interleave

PEER = "peer 1.0"
LOADS = ("open", "c8", "c32", "sse8", "steps8")
#: Milliseconds of an answer, by side.
SLOW = {DIRECT: 1.0, HOTSET: 2.0, PEER: 10.0}


def measured(side: str, load: str, *, faults: dict[str, int] | None = None) -> Measured:
    latencies = [SLOW[side] / 1e3] * 99 + [3 * SLOW[side] / 1e3]
    outcome = Outcome(
        latencies=latencies,
        seconds=1 / SLOW[side],
        num_on_time=80,
        num_answered=200,
        num_pieces=8 if load in {"open", "c8", "c32"} else 50,
        faults=faults or {},
    )
    return Measured(outcome, CpuTime(0.0, 0.0) if side == DIRECT else CpuTime(0.02, 0.01))


def report_of(sides: tuple[str, ...], faults: dict[str, int] | None = None) -> Report:
    outcomes = Outcomes[Measured]()
    for block in interleave(sides, LOADS, 2):
        outcomes.add(block, measured(block.side, block.load, faults=faults))
    return build_report(sides, {"gone 2.0": "not installed: do this"}, outcomes, {"rounds": "2"})


def figure(section: Section, side: str, key: str) -> float:
    taken = next(row for row in section.rows if row.side == side).figures[key]
    assert taken is not None
    return taken.median


def test_added_latency_is_via_less_direct_at_the_same_load() -> None:
    latency = report_of((DIRECT, HOTSET, PEER)).sections[0]
    assert figure(latency, HOTSET, "added_p50_ms") == pytest.approx(1.0)
    assert figure(latency, PEER, "added_p99_ms") == pytest.approx(9.0)
    assert figure(latency, HOTSET, "p99_ms") == pytest.approx(2.0)
    assert "added_p50_ms" not in latency.rows[0].figures


def test_processor_time_is_a_request_and_a_chunk_and_the_engine_process_apart() -> None:
    cpu = report_of((DIRECT, HOTSET, PEER)).sections[2]
    assert figure(cpu, HOTSET, "cpu_us_per_request") == pytest.approx(100.0)
    assert figure(cpu, HOTSET, "engine_cpu_us_per_request") == pytest.approx(50.0)
    assert figure(cpu, HOTSET, "cpu_us_per_chunk") == pytest.approx(2.0)
    assert figure(cpu, PEER, "cpu_us_per_request") == pytest.approx(150.0)  # a peer's children are its own
    assert DIRECT not in [row.side for row in cpu.rows]


def test_ratios_are_hotset_over_each_peer() -> None:
    ratios = report_of((DIRECT, HOTSET, PEER)).sections[3]
    assert figure(ratios, f"hotset / {PEER}", "requests_c8") == pytest.approx(0.2)
    assert figure(ratios, f"hotset / {PEER}", "cpu_per_request") == pytest.approx(100 / 150)


def test_without_peers_there_are_no_ratios_and_the_missing_are_named() -> None:
    report = report_of((DIRECT, HOTSET))
    assert len(report.sections) == 3
    assert "not installed: do this" in report.to_text()


def test_every_fault_that_the_client_saw_is_told() -> None:
    notes = report_of((DIRECT, HOTSET), {"no end": 3}).notes
    assert any("round 2 sse8 hotset: 3 times no end" in note for note in notes)


def test_a_side_that_answered_nothing_is_shown_with_zero_and_has_no_ratio() -> None:
    outcomes = Outcomes[Measured]()
    for block in interleave((DIRECT, HOTSET, PEER), LOADS, 1):
        taken = measured(block.side, block.load)
        if block.side == PEER:
            taken = Measured(msgspec.structs.replace(taken.outcome, latencies=[], num_answered=0), taken.cpu)
        outcomes.add(block, taken)
    rates, cpu, ratios = build_report((DIRECT, HOTSET, PEER), {}, outcomes, {}).sections[1:]
    assert figure(rates, PEER, "requests_per_s_c8") == 0
    assert rates.rows[2].figures["p99_ms_c8"] is None
    assert cpu.rows[1].figures["cpu_us_per_request"] is None
    assert all(value is None for value in ratios.rows[0].figures.values())
