"""The replay bench over real files: good ones replayed whole, bad ones refused with their names."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hotset.bench import replay
from hotset.bench.replay_policies import POLICIES
from hotset.bench.report import Report
from hotset.bench.traces import ARENA_FILE, LENGTHS_FILE, RATES_FILE, read_arena, read_lengths, read_rates
from hotset.bench.workloads import LocalityShape, ServegenShape
from hotset.cli.main import run
from hotset.core.clock import SystemClock
from hotset.core.errors import ConfigError

RATES = """pool,client,window_start_s,rate_rps,iat_cv,iat_family,iat_p1,iat_p2
p,0,0,1.5,1.2,G,0.7,2.1
p,1,0,0.5,1.2,W,0.7,2.1
q,0,600,1.5,1.2,G,0.7,2.1
"""
LENGTHS = """pool,client,field,windows,mean,p1,p5,p10,p25,p50,p75,p90,p95,p99,p99.9,max
p,0,input_tokens,2,9,1,2,3,4,5,6,7,8,9,10,11
p,0,output_tokens,2,9,1,2,3,4,5,6,7,8,9,10,11
p,1,input_tokens,2,9,1,2,3,4,5,6,7,8,9,10,11
"""
ARENA = """arrival_s,tenant,input_tokens,output_tokens
0.2,13,13,199
0.1,2,36,137
0.4,13,4,8
"""


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for name, text in ((RATES_FILE, RATES), (LENGTHS_FILE, LENGTHS), (ARENA_FILE, ARENA)):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    return tmp_path


def settings_for(traces: Path) -> replay.Settings:
    return replay.Settings(
        traces_folder=traces,
        slot_counts=(1, 2),
        num_seeds=2,
        servegen=ServegenShape(pools=("p",), hours=1 / 6, rate=0.5),
        locality=LocalityShape(num_requests=50),
    )


def hits(report: Report) -> dict[tuple[str, str], float]:
    return {
        (section.title, row.side): figure.median
        for section in report.sections[1:]
        for row in section.rows
        if (figure := row.figures["hit_percent"]) is not None
    }


def test_every_workload_goes_through_every_policy(traces: Path) -> None:
    said: list[str] = []
    report = replay.run(settings_for(traces), SystemClock(), said.append)
    titles = [
        f"{name} in {slots} slots{sight}"
        for name in ("Servegen", "Servegen-damped", "Arena-27", "Locality")
        for slots in (1, 2)
        for sight in ("", ", 1 s of queue in sight")
    ]
    assert [section.title for section in report.sections] == ["Workloads", *titles]
    assert set(hits(report)) == {(title, side) for title in titles for side in POLICIES}
    assert hits(report)["Arena-27 in 1 slots", "lru"] == pytest.approx(100 / 3)
    assert len(said) == 1 + 2 * len(titles) * len(POLICIES)


def test_the_same_settings_give_the_same_hits(traces: Path) -> None:
    first, second = (replay.run(settings_for(traces), SystemClock()) for _ in range(2))
    assert hits(first) == hits(second)


def test_files_are_read_as_they_are(traces: Path) -> None:
    windows = read_rates(traces / RATES_FILE, ["p"])
    assert [(one.client, one.rate, one.gap_family, one.gap_shape) for one in windows] == [
        ("0", 1.5, "G", 0.7),
        ("1", 0.5, "W", 0.7),
    ]
    lengths = read_lengths(traces / LENGTHS_FILE)
    assert set(lengths) == {("p", "0")}  # the other client lacks its output lengths
    assert lengths["p", "0"].output_tokens[0] == 1
    assert [line.tenant for line in read_arena(traces / ARENA_FILE)] == ["2", "13", "13"]


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        read()
    return str(caught.value)


def rates_refusal(path: Path) -> str:
    return refusal(lambda: read_rates(path, ["p"]))


def test_a_missing_truncated_or_broken_file_is_refused_with_its_name(tmp_path: Path) -> None:
    path, whole = tmp_path / RATES_FILE, gzip.compress(RATES.encode())
    assert rates_refusal(path) == f"{path} is not there."
    path.write_bytes(whole[:-12])
    assert rates_refusal(path) == f"{path} is cut off: its gzip stream has no end."
    path.write_text(RATES)
    assert rates_refusal(path).startswith(f"{path} is not a whole gzip file")
    path.write_bytes(whole[:-8] + b"\x00" * 8)
    assert rates_refusal(path).startswith(f"{path} is not a whole gzip file")
    path.write_bytes(whole[:10] + b"\xff" * 20 + whole[30:])
    assert rates_refusal(path).startswith(f"{path} is damaged")
    path.write_bytes(gzip.compress(b"\xff\xfe"))
    assert rates_refusal(path).startswith(f"{path} does not hold CSV text in UTF-8")
    path.unlink()
    path.mkdir()
    assert rates_refusal(path).startswith(f"{path} can't be read")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_rps", "rate", "the columns are"),
        (RATES, "", "the columns are ''"),
        ("p,1,0,0.5,1.2,W,0.7,2.1", "p,1,0,0.5", "line 3: 4 cells; expected 8."),
        ("0.5,1.2,W", "many,1.2,W", "line 3: rate_rps is 'many'"),
        ("0.5,1.2,W", "nan,1.2,W", "line 3: rate_rps is 'nan'"),
        ("0.5,1.2,W", "-1,1.2,W", "line 3: rate_rps is '-1'"),
        ("0.5,1.2,W", "0,1.2,W", "line 3: rate_rps and iat_p1 must be above 0"),
        ("0.5,1.2,W", "1e300,1.2,W", "line 3: rate_rps and iat_p1 must be above 0"),
        ("W,0.7", "W,0", "line 3: rate_rps and iat_p1 must be above 0"),
        ("1.2,W", "1.2,N", "line 3: iat_family is 'N'; expected G or W."),
        ("p,", "r,", "has no pool p; it has q, r."),
    ],
)
def test_wrong_rates_are_refused_with_the_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / RATES_FILE
    path.write_bytes(gzip.compress(RATES.replace(old, new).encode()))
    assert said in rates_refusal(path)


def test_wrong_lengths_and_a_wrong_arena_are_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / LENGTHS_FILE
    path.write_bytes(gzip.compress(LENGTHS.replace("1,2,3,4", "4,3,2,1").encode()))
    assert "line 2: expected a field" in refusal(lambda: read_lengths(path))
    path.write_bytes(gzip.compress(LENGTHS.replace("output_tokens", "words").encode()))
    assert "line 3: expected a field" in refusal(lambda: read_lengths(path))
    path.write_bytes(gzip.compress(ARENA.replace("36", "3.6").encode()))
    assert "line 3: input_tokens is '3.6'; expected a whole number." in refusal(lambda: read_arena(path))
    path.write_bytes(gzip.compress(ARENA.splitlines(keepends=True)[0].encode()))
    assert "holds no request" in refusal(lambda: read_arena(path))


def test_the_command_prints_json_and_refuses_bad_settings(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "replay", "--seeds", "1", "--slots", "2", "--hours", "0.2", "--rate", "0.5", "--json"]
    assert run([*command, "--traces-dir", str(traces), "--pools", "p"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert (report["bench"], len(report["sections"])) == ("replay", 9)
    assert "Servegen" in report["sections"][1]["title"]
    assert "seed 1 servegen in 2 slots lru" in printed.err
    assert run([*command, "--traces-dir", str(traces / "none")]) == 2
    assert "is not there" in capsys.readouterr().err
    assert run([*command, "--slots", "8,many"]) == 2
    assert "expected numbers from 1 to 9999" in capsys.readouterr().err
