"""The request log on a real disk: whole lines, rotation, what a crash leaves, and the structured logs."""

import io
import json
import logging
import resource
from pathlib import Path

import pytest

from hotset.core.ids import RequestId
from hotset.core.on_call import RequestEntry
from hotset.telemetry import request_log
from hotset.telemetry.logs import of_request
from hotset.telemetry.request_log import RequestLog, find, newest_first, numbered, tail
from tests.support.log_capture import captured_log


def entry(number: int, **changes: object) -> RequestEntry:
    fields: dict[str, object] = {
        "request_id": RequestId(f"id-{number}"),
        "at": 1_700_000_000.0 + number,
        "tenant": "acme",
        "key": "key-1",
        "alias": "support",
        "adapter": "acme/support",
        "version": 2,
        "base": "sha256:" + "a" * 64,
        "endpoint": "chat",
        "stream": True,
        "lane": "hot",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "queue_s": 0.001,
        "load_s": 0.0,
        "first_token_s": 0.02,
        "total_s": 0.5,
        "outcome": "completed",
        "code": "",
    }
    return RequestEntry(**{**fields, **changes})  # type: ignore[arg-type]


def test_what_is_appended_is_read_back_newest_first(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "logs" / "requests.jsonl")
    entries = [entry(number) for number in range(5)]
    for each in entries:
        log.append(each)
    log.flush()
    assert tail(log.path, 3) == entries[:1:-1]
    assert tail(log.path, 0) == []
    assert find(log.path, "id-1") == entries[1]
    assert find(log.path, "id-9") is None
    log.close()
    log.close()


def test_a_new_file_that_can_not_be_opened_costs_its_lines_and_no_others(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.jsonl", file_bytes_max=1, files_max=3)
    for number in (-2, -1, 0):
        log.append(entry(number))
        log.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        for number in (1, 2, 3):
            log.append(entry(number))
            log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log.append(entry(4))
    log.close()
    assert log.num_dropped == 3
    assert [each.request_id for each in tail(log.path, 9)] == ["id-4", "id-0", "id--1"]


def test_closing_writes_what_was_left(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.jsonl")
    for number in range(2500):
        log.append(entry(number))
    log.close()
    assert len(list(newest_first(log.path))) == 2500


def test_files_are_rotated_by_size_and_bounded(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.jsonl", file_bytes_max=2000, files_max=3)
    for number in range(40):
        log.append(entry(number))
        log.flush()
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["requests.jsonl", "requests.jsonl.1", "requests.jsonl.2"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    numbers = [each.request_id for each in newest_first(log.path)]
    assert numbers[0] == "id-39"
    assert numbers == [f"id-{39 - place}" for place in range(len(numbers))]


def test_one_file_only_starts_anew(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.jsonl", file_bytes_max=1000, files_max=1)
    for number in range(20):
        log.append(entry(number))
        log.flush()
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["requests.jsonl"]
    assert tail(log.path, 1)[0].request_id == "id-19"


def test_half_a_line_after_a_crash_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = RequestLog(path)
    log.append(entry(1))
    log.close()
    with path.open("ab") as file:
        file.write(b'{"request_id":"id-2","at":17')
    log = RequestLog(path)
    log.append(entry(3))
    log.close()
    assert [each.request_id for each in newest_first(path)] == ["id-3", "id-1"]


def test_lines_longer_than_a_block_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_BLOCK_BYTES", 7)
    log = RequestLog(tmp_path / "requests.jsonl")
    entries = [entry(number, alias="x" * (number % 5)) for number in range(7)]
    for each in entries:
        log.append(each)
    log.close()
    assert list(newest_first(log.path)) == entries[::-1]


def test_a_full_disk_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    class FullFile(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

    told = list[int]()
    log = RequestLog(tmp_path / "requests.jsonl", on_dropped=told.append)
    real, log._file = log._file, FullFile()
    log.append(entry(1))
    log.flush()
    assert log.num_dropped == 1
    assert told == [1]
    log._file = real
    log.append(entry(2))
    log.close()
    assert [each.request_id for each in newest_first(log.path)] == ["id-2"]


def test_a_disk_that_cannot_keep_up_bounds_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_ENTRIES_WAITING_MAX", 3)
    log = RequestLog(tmp_path / "requests.jsonl")
    with log._write_lock:
        for number in range(10):
            log.append(entry(number))
        assert log.num_dropped >= 6
    log.close()


def test_no_file_is_no_entries(tmp_path: Path) -> None:
    assert tail(tmp_path / "requests.jsonl", 5) == []
    assert numbered(tmp_path / "a", 0) == tmp_path / "a"


def test_log_lines_are_json_with_the_request_and_without_tokens() -> None:
    with captured_log() as stream:
        logger = logging.getLogger("hotset.gateway.test")
        logger.info("key %s used", "hs_secret0123456789", extra=of_request("id-1"))
        try:
            raise ValueError("Authorization: Bearer something-secret")
        except ValueError:
            logger.exception("two\nlines")
        logger.debug("not shown")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert first["request_id"] == "id-1"
    assert first["level"] == "info"
    assert first["message"] == "key [redacted] used"
    assert first["at"].endswith("+00:00")
    assert "ValueError" in second["error"]
    assert "something-secret" not in second["error"]
    assert "request_id" not in second
