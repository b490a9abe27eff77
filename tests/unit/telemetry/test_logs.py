"""A log line says what its record carries, and no token."""

import json
import logging
from typing import Any

from hotset.telemetry.logs import JsonLines, of_request
from hotset.telemetry.names import LOG_FIELDS
from tests.support.log_capture import captured_log


def line_of(message: str, **extra: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "hotset.x", "levelno": 40, "levelname": "ERROR", "msg": message, **extra})
    return json.loads(JsonLines().format(record))


def test_a_line_has_the_fields_of_its_record_and_only_known_ones() -> None:
    line = line_of("engine did not start", base="tiny", reason="no such folder", other="x", **of_request("r1"))
    assert (line["base"], line["reason"], line["request_id"], line["level"]) == (
        "tiny",
        "no such folder",
        "r1",
        "error",
    )
    assert set(line) <= set(LOG_FIELDS)
    assert "other" not in line


def test_tokens_are_taken_out_wherever_they_stand() -> None:
    line = line_of("key hs_abcdefgh123 was used", reason="Bearer hs_abcdefgh123")
    assert "abcdefgh123" not in json.dumps(line)
    assert line_of("operator hso_abcdefgh123 came")["message"] == "operator [redacted] came"


def test_of_the_web_server_only_errors_are_kept_as_clients_could_fill_the_log_with_the_rest() -> None:
    with captured_log() as stream:
        server = logging.getLogger("uvicorn.error")
        server.info("Started server process [1]")
        server.warning("Invalid HTTP request received.")
        server.error("Exception in ASGI application")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["Exception in ASGI application"]
