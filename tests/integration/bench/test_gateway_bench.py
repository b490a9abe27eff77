"""The gateway bench, whole but short, without peers: every process real, every socket real."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hotset.bench import gateway
from hotset.bench.children import Nursery
from hotset.bench.gateway_sides import DIRECT, HOTSET, Side, start_hotset, start_upstream
from hotset.bench.load_job import Ask, Job, Outcome
from hotset.bench.report import Report
from hotset.bench.upstream import canned_text
from hotset.core.clock import SystemClock
from hotset.core.errors import EngineUnavailableError

#: Two rounds: a machine that stands still for a while takes a block's answers, but no load's of both.
SHORT = gateway.Settings(rounds=2, seconds=0.4, warmup_s=0.1, rate=50.0, num_chunks=10, with_peers=False)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with Nursery(tmp_path, SystemClock()) as children:
        yield children


def load(side: Side, asks: tuple[Ask, ...], *, stream: bool, rate: float | None = None) -> Outcome:
    job = Job(
        host="127.0.0.1",
        port=side.port,
        path="/v1/chat/completions",
        asks=asks,
        stream=stream,
        connections=3,
        duration_s=0.295,
        warmup_s=0.0,
        rate=rate,
    )
    done = subprocess.run(
        [sys.executable, "-m", "hotset.bench.load"], input=msgspec.json.encode(job), capture_output=True, check=True
    )
    return msgspec.json.decode(done.stdout, type=Outcome)


def test_a_short_run_measures_every_load_without_a_fault() -> None:
    said: list[str] = []
    report = gateway.run(SHORT, said.append)
    assert [line.split()[2:4] for line in said] == [
        [name, side + ":"]
        for _ in range(SHORT.rounds)
        for name in ("open", "c8", "c32", "sse8", "steps8")
        for side in (DIRECT, HOTSET)
    ]
    assert not [note for note in report.notes if note.startswith("round")]
    for section in report.sections:
        hotset = next(row for row in section.rows if row.side == HOTSET)
        assert set(hotset.figures) == {column.key for column in section.columns}
        assert all(figure is not None for figure in hotset.figures.values())
    assert msgspec.json.decode(report.to_json(), type=Report) == report


@pytest.mark.slow
def test_the_profile_names_the_gateways_own_functions() -> None:
    report = gateway.run(
        gateway.Settings(rounds=1, seconds=0.2, warmup_s=0.0, with_peers=False, profile=True, rate=20.0)
    )
    assert "hotset/gateway" in report.appendix
    assert "answers under the profiler" in report.appendix


def test_every_caller_is_answered_by_its_own_version_and_another_text_is_noticed(nursery: Nursery) -> None:
    side = start_hotset(nursery)
    assert len({caller.engine_name for caller in side.callers}) > 12
    assert load(side, side.asks(stream=True, num_tokens=50, is_stepwise=True), stream=True).faults == {}
    asks = side.asks(stream=True, num_tokens=50)
    outcome = load(side, asks, stream=True)
    assert outcome.faults == {}
    assert outcome.num_answered > 0
    others = [ask for ask in asks if ask is not asks[1]]
    swapped = tuple(msgspec.structs.replace(ask, expects=asks[1].expects) for ask in others)
    wrong = load(side, swapped, stream=True)
    assert wrong.latencies == []
    assert all(fault.startswith("other text") for fault in wrong.faults)


def test_an_open_loop_asks_at_its_rate_and_counts_from_when_a_request_was_due(nursery: Nursery) -> None:
    upstream = start_upstream(nursery, num_tokens=4, num_chunks=5)
    ask = Ask(headers={}, body='{"stream":false}', expects=canned_text(4), num_pieces=4)
    outcome = load(upstream, (ask,), stream=False, rate=100.0)
    assert outcome.num_answered == 30
    assert outcome.faults == {}
    assert all(taken > 0 for taken in outcome.latencies)
    assert outcome.num_on_time <= len(outcome.latencies) == 30


def test_a_refused_request_is_a_fault(nursery: Nursery) -> None:
    side = start_hotset(nursery)
    ask = msgspec.structs.replace(side.asks(stream=False, num_tokens=4)[0], headers={"Authorization": "Bearer no"})
    outcome = load(side, (ask,), stream=False)
    assert outcome.latencies == []
    assert any(fault.startswith("status 401") for fault in outcome.faults)


def test_a_child_that_ends_at_once_is_told_with_its_last_words(nursery: Nursery) -> None:
    child = nursery.start("speaker", [sys.executable, "-c", "raise SystemExit('no luck')"], talks=True)
    with pytest.raises(EngineUnavailableError, match="no luck"):
        child.read_line(60.0)
    silent = nursery.start("server", [sys.executable, "-c", "raise SystemExit('no luck')"])
    with pytest.raises(EngineUnavailableError, match="ended while starting: no luck"):
        nursery.wait_http(silent, 1, "/health", 60.0)


def test_leaving_the_nursery_ends_a_child_that_ignores_being_asked(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    with Nursery(tmp_path, SystemClock(), gentle_s=0.2) as nursery:
        child = nursery.start("stubborn", [sys.executable, "-c", stubborn], talks=True)
        assert child.read_line(60.0) == "up"
    assert child.popen.returncode == -9


_BENCH = """
import sys
from pathlib import Path
from hotset.bench.children import Nursery
from hotset.core.clock import SystemClock
with Nursery(Path(sys.argv[1]), SystemClock()) as nursery:
    child = nursery.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"])
    print(child.pid, flush=True)
    child.popen.wait()
"""


def test_a_bench_that_is_told_to_end_ends_its_stopped_children_first(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _BENCH, str(tmp_path)], stdout=subprocess.PIPE) as bench:
        assert bench.stdout is not None
        child = int(bench.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{child}").exists()
