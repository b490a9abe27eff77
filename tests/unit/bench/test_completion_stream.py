"""What a gateway's answers to completions say, line by line."""

import msgspec
import pytest

from hotset.bench.completion_stream import AnswerBrokenError, Told, read_line, read_refusal
from hotset.core.errors import AdapterColdError, ModelNotFoundError
from hotset.core.ids import RequestId
from hotset.gateway.problems import answer_of, problem_of


def event(**members: object) -> str:
    return "data: " + msgspec.json.encode(members).decode()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", Told()),
        (": waiting", Told()),
        (event(choices=[{"index": 0, "text": "a", "finish_reason": None}], usage=None), Told(has_text=True)),
        (event(choices=[{"index": 0, "text": "", "finish_reason": "length"}]), Told()),
        (event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 9}), Told(num_tokens=9)),
        (event(error={"message": "gone", "code": "engine_failed"}), Told(code="engine_failed", is_end=True)),
        (event(error={"message": "gone", "code": None}), Told(code="unknown", is_end=True)),
        ("data: [DONE]", Told(is_end=True)),
    ],
)
def test_each_line_of_a_stream_says_one_thing(line: str, told: Told) -> None:
    assert read_line(line) == told


@pytest.mark.parametrize("line", ["<html>", "data: {", "data: []", 'data: {"choices": 1}'])
def test_what_is_no_event_is_not_taken_for_one(line: str) -> None:
    with pytest.raises(AnswerBrokenError):
        read_line(line)


def test_a_gateways_own_refusal_is_read_back() -> None:
    error = AdapterColdError(retry_after_ms=1234)
    status, _, body = answer_of(error, problem_of(error, RequestId("r")))
    refused = read_refusal(status, body)
    assert (refused.code, refused.retry_after_ms) == ("adapter_cold", 1234)
    assert refused.is_refused
    assert refused.is_passing


def test_what_will_never_be_served_does_not_pass() -> None:
    error = ModelNotFoundError()
    status, _, body = answer_of(error, problem_of(error, RequestId("r")))
    refused = read_refusal(status, body)
    assert refused.code == "model_not_found"
    assert not refused.is_passing


@pytest.mark.parametrize(
    ("status", "code", "is_refused", "is_passing"),
    [
        (429, "first_token_budget_exceeded", False, True),
        (502, "engine_failed", False, True),
        (503, "engine_unavailable", True, True),
        (400, "context_length_exceeded", True, False),
    ],
)
def test_who_had_been_let_in_was_not_turned_away(status: int, code: str, is_refused: bool, is_passing: bool) -> None:
    body = msgspec.json.encode({"error": {"message": "no", "code": code}})
    refused = read_refusal(status, body)
    assert (refused.is_refused, refused.is_passing) == (is_refused, is_passing)


def test_a_page_of_a_proxy_is_known_by_its_status() -> None:
    assert read_refusal(504, b"<html>").code == "status_504"
    assert read_refusal(404, b'{"detail": "nothing here"}').code == "status_404"
