"""Chunks of streamed completions become events."""

import json
from typing import Any

import pytest

from hotset.core.errors import EngineFailedError
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Started, TokenLogprob
from hotset.engines.served.chunks import ChunkReader

R = RequestId("r")


def reader(*, num_prompts: int = 1, num_samples: int = 1) -> ChunkReader:
    return ChunkReader(R, num_prompts=num_prompts, num_samples=num_samples)


def chat(text: str | None, *, done: int | None = None, reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason, **more}
    usage = {} if done is None else {"usage": {"prompt_tokens": 4, "completion_tokens": done, "total_tokens": 4 + done}}
    return json.dumps({"choices": [choice], **usage}).encode()


def text(index: int, content: str, *, prompt: int, done: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": done}
    return json.dumps({"choices": [{"index": index, "text": content}], "usage": usage}).encode()


def total(prompt: int, completion: int) -> bytes:
    return json.dumps({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).encode()


def test_a_chat_starts_flows_and_finishes() -> None:
    events = reader().read(
        [
            chat("", done=0),
            chat("one ", done=1),
            chat("two three ", done=3, reason="stop"),
            total(4, 3),
            b"[DONE]",
            b"never read",
        ]
    )
    assert events == [
        Started(R, 4),
        Delta(R, 0, "one ", 1),
        Delta(R, 0, "two three ", 2, "stop"),
        Finished(R, 4, 3),
    ]


def test_an_engine_that_tells_no_usage_is_counted_by_its_pieces() -> None:
    events = reader().read([chat(None), chat("one "), chat("", reason="length"), b"[DONE]"])
    assert events == [Started(R, 0), Delta(R, 0, "one ", 1), Delta(R, 0, "", 0, "length"), Finished(R, 0, 1)]


def test_tokens_without_text_are_counted_too() -> None:
    events = reader().read([chat("", done=1)])
    assert events == [Started(R, 4), Delta(R, 0, "", 1)]


def test_of_several_prompts_nothing_is_told_until_all_have_spoken() -> None:
    reading = reader(num_prompts=2, num_samples=2)
    assert reading.read([text(0, "a", prompt=3, done=1), text(1, "b", prompt=3, done=1)]) == []
    events = reading.read([text(3, "c", prompt=5, done=1)])
    assert events == [Started(R, 8), Delta(R, 0, "a", 1), Delta(R, 1, "b", 1), Delta(R, 3, "c", 1)]
    assert reading.read([text(2, "d", prompt=5, done=1)]) == [Delta(R, 2, "d", 1)]


def test_log_probabilities_of_chats_and_of_completions_read_alike() -> None:
    top = {"token": "x", "logprob": -1.5, "bytes": [120]}
    content = [{"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": [top]}]
    (_, of_chat) = reader().read([chat("é", done=1, logprobs={"content": content})])
    completion = {"tokens": ["é"], "token_logprobs": [-0.5], "top_logprobs": [{"x": -1.5}]}
    choice = {"index": 0, "text": "é", "logprobs": completion}
    (_, of_completion) = reader().read([json.dumps({"choices": [choice]}).encode()])
    expected = (TokenLogprob("é", "é".encode(), -0.5, (TokenLogprob("x", b"x", -1.5),)),)
    for event in (of_chat, of_completion):
        assert isinstance(event, Delta)
        assert event.logprobs == expected


@pytest.mark.parametrize(
    "payloads",
    [
        [chat("one ", done=1), b'{"error": {"message": "secret of the engine", "code": 500}}', b"[DONE]"],
        [b"[DONE]"],
    ],
)
def test_an_engine_that_fails_is_not_quoted(payloads: list[bytes]) -> None:
    events: list[EngineEvent] = reader().read(payloads)
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "engine_failed"
    assert "secret" not in events[-1].message


def test_what_is_no_chunk_fails() -> None:
    with pytest.raises(EngineFailedError):
        reader().read([b"<html>"])
