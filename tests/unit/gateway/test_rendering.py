"""The shapes of whole and streamed answers, byte for byte where a byte matters."""

import json
import math

import pytest

from hotset.core.errors import ConfigError
from hotset.core.messages import Delta, TokenLogprob
from hotset.gateway.endpoints import CHAT, COMPLETION, Endpoint
from hotset.gateway.settings import BOUNDS, GatewaySettings
from hotset.gateway.sse import COMMENT, DONE, Chunks, json_text
from hotset.gateway.whole import WholeAnswer

R = "r1"


def chunks(endpoint: Endpoint, *, num_choices: int = 1, include_usage: bool = False) -> Chunks:
    return Chunks(
        endpoint, answer_id="id-1", created=5, model="eu/faq", num_choices=num_choices, include_usage=include_usage
    )


def events(rendered: bytes) -> list[dict[str, object]]:
    assert rendered.endswith(b"\n\n")
    return [json.loads(event.removeprefix(b"data: ")) for event in rendered[:-2].split(b"\n\n")]


def rendered(stream: Chunks, *deltas: Delta) -> list[dict[str, object]]:
    for delta in deltas:
        stream.add(delta)
    return events(stream.take())


def test_a_chat_chunk() -> None:
    stream = chunks(CHAT)
    stream.add(Delta(R, 0, 'say "é"\n', 1))
    assert stream.take() == (
        b'data: {"id":"id-1","object":"chat.completion.chunk","created":5,"model":"eu/faq","choices":'
        b'[{"index":0,"delta":{"content":"say \\"\xc3\xa9\\"\\n"},"logprobs":null,"finish_reason":null}]}\n\n'
    )
    assert stream.take() == b""


def test_a_completion_chunk() -> None:
    stream = chunks(COMPLETION, num_choices=2)
    assert rendered(stream, Delta(R, 1, "x", 1), Delta(R, 0, "", 1, "length")) == [
        {
            "id": "id-1",
            "object": "text_completion",
            "created": 5,
            "model": "eu/faq",
            "choices": [{"index": 1, "text": "x", "logprobs": None, "finish_reason": None}],
        },
        {
            "id": "id-1",
            "object": "text_completion",
            "created": 5,
            "model": "eu/faq",
            "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}],
        },
    ]
    assert stream.opening() == b""


def test_a_chat_opens_with_the_role_of_each_choice() -> None:
    opening = events(chunks(CHAT, num_choices=2).opening())
    assert [event["choices"] for event in opening] == [
        [{"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]
        for index in (0, 1)
    ]


def test_a_delta_that_says_nothing_has_no_chunk_and_a_last_one_has_an_empty_delta() -> None:
    stream = chunks(CHAT)
    stream.add(Delta(R, 0, "", 1))
    assert stream.take() == b""
    (last,) = rendered(stream, Delta(R, 0, "", 0, "stop"))
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]


def test_usage_is_null_until_the_chunk_without_choices() -> None:
    stream = chunks(CHAT, include_usage=True)
    first, last = rendered(stream, Delta(R, 0, "a", 1), Delta(R, 0, "b", 1, "stop"))
    assert first["usage"] is None
    assert last["usage"] is None
    (usage,) = events(stream.usage(3, 4))
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


TOKENS = (
    TokenLogprob("é", "é".encode(), -0.5, (TokenLogprob("e", b"e", -1.5), TokenLogprob("\ufffd", b"\xc3", -math.inf))),
    TokenLogprob("b", b"b", math.nan),
)


def test_chat_logprobs() -> None:
    (chunk,) = rendered(chunks(CHAT), Delta(R, 0, "éb", 2, None, TOKENS))
    (choice,) = chunk["choices"]  # type: ignore[misc]
    assert choice["logprobs"] == {
        "content": [
            {
                "token": "é",
                "logprob": -0.5,
                "bytes": [195, 169],
                "top_logprobs": [
                    {"token": "e", "logprob": -1.5, "bytes": [101]},
                    {"token": "\ufffd", "logprob": -9999.0, "bytes": [195]},
                ],
            },
            {"token": "b", "logprob": -9999.0, "bytes": [98], "top_logprobs": []},
        ],
        "refusal": None,
    }


def test_completion_logprobs_count_on_from_chunk_to_chunk_in_each_choice() -> None:
    stream = chunks(COMPLETION, num_choices=2)
    parts = rendered(
        stream,
        Delta(R, 0, "éb", 2, None, TOKENS),
        Delta(R, 1, "éb", 2, None, TOKENS),
        Delta(R, 0, "é", 2, None, TOKENS),
    )
    logprobs = [part["choices"][0]["logprobs"] for part in parts]  # type: ignore[index]
    assert [part["text_offset"] for part in logprobs] == [[0, 1], [0, 1], [2, 3]]
    assert logprobs[0]["tokens"] == ["é", "b"]
    assert logprobs[0]["token_logprobs"] == [-0.5, -9999.0]
    assert logprobs[0]["top_logprobs"] == [{"e": -1.5, "\ufffd": -9999.0}, {}]


def whole(endpoint: Endpoint, *deltas: Delta, num_choices: int = 1, with_logprobs: bool = False) -> dict[str, object]:
    answer = WholeAnswer(num_choices, with_logprobs=with_logprobs)
    for delta in deltas:
        answer.add(delta)
    body = answer.body(endpoint, answer_id="id-1", created=5, model="eu/faq", prompt_tokens=1, completion_tokens=2)
    return json.loads(body)


def test_a_whole_chat_answer() -> None:
    assert whole(CHAT, Delta(R, 0, "a", 1), Delta(R, 0, "\u2028b", 1, "length")) == {
        "id": "id-1",
        "object": "chat.completion",
        "created": 5,
        "model": "eu/faq",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "a\u2028b", "refusal": None},
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def test_a_whole_completion_keeps_its_choices_apart() -> None:
    answer = whole(
        COMPLETION,
        Delta(R, 1, "x", 1, None, TOKENS),
        Delta(R, 0, "a", 1, "stop"),
        Delta(R, 1, "y", 1, "length", TOKENS),
        num_choices=2,
        with_logprobs=True,
    )
    first, second = answer["choices"]  # type: ignore[misc]
    assert (first["index"], first["text"], first["finish_reason"]) == (0, "a", "stop")
    assert (second["index"], second["text"], second["finish_reason"]) == (1, "xy", "length")
    assert second["logprobs"]["text_offset"] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00", "\x85\u2028\u2029"])
def test_any_text_becomes_one_line_of_valid_json(text: str) -> None:
    encoded = json_text(text)
    assert len(encoded.decode().splitlines()) == 1
    assert isinstance(json.loads(encoded), str)


def test_the_ends_and_comments_of_a_stream() -> None:
    assert DONE == b"data: [DONE]\n\n"
    assert COMMENT.startswith(b":")
    assert COMMENT.endswith(b"\n\n")


def test_every_setting_has_bounds_that_hold_its_default() -> None:
    assert set(BOUNDS) == set(GatewaySettings.__slots__)
    GatewaySettings()


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_a_setting_outside_its_bounds_is_refused_by_name(name: str) -> None:
    least, greatest = BOUNDS[name]
    for value in (least - 0.001, greatest + 1, math.nan):
        with pytest.raises(ConfigError) as caught:
            GatewaySettings(**{name: value})  # type: ignore[arg-type]
        assert caught.value.param == f"gateway.{name}"
