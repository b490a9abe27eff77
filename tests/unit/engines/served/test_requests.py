"""What an engine is sent, and what its refusals mean."""

import json
from typing import Any

import pytest

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import Generate, Message, Sampling
from hotset.engines.served.dialects import SGLANG, VLLM, failure_of, words_of
from hotset.engines.served.request_body import body_of, path_of

NAME = EngineName("hs-" + "a" * 32)


def generate(**fields: Any) -> Generate:
    base: dict[str, Any] = {"request_id": RequestId("r"), "engine_name": NAME, "cache_salt": "salt"}
    return Generate(**{**base, "sampling": Sampling(), **fields})


def test_a_chat_is_sent_whole_with_its_salt_and_nothing_that_was_not_asked_for() -> None:
    sampling = Sampling(temperature=0.0, max_tokens=5, stop=("x",), seed=7, logprobs=2, top_k=3, min_p=0.1)
    request = generate(messages=(Message(role="user", content="hi"),), sampling=sampling)
    body = body_of(request, "model")
    assert path_of(request) == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert (body["cache_salt"], body["request_id"], body["model"]) == ("salt", "r", "model")
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    assert (body["stop"], body["seed"], body["top_k"], body["min_p"]) == (["x"], 7, 3, 0.1)
    assert body["stream"] is True
    assert "ignore_eos" not in body
    assert "prompt" not in body


def test_prompts_without_a_bound_say_so() -> None:
    request = generate(prompts=("one", (1, 2)), cache_salt="", sampling=Sampling(logprobs=3, ignore_eos=True))
    body = body_of(request, "model")
    assert path_of(request) == "/v1/completions"
    assert body["prompt"] == ["one", (1, 2)]
    assert (body["max_tokens"], body["logprobs"], body["ignore_eos"]) == (None, 3, True)
    assert "cache_salt" not in body


def test_each_engine_has_its_own_way_to_name_a_version() -> None:
    assert [dialect.model_of("base", NAME) for dialect in (VLLM, SGLANG)] == [NAME, f"base:{NAME}"]
    assert [dialect.model_of("base", None) for dialect in (VLLM, SGLANG)] == ["base", "base"]


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (404, "The model `x` does not exist.", "load_failed"),
        (400, "Got LoRA adapter that has never been loaded: x", "load_failed"),
        (400, "This model's maximum context length is 10 tokens", "context_length_exceeded"),
        (400, "top_k must be", "invalid_request"),
        (500, "EngineCore encountered an issue", "engine_failed"),
        (503, "", "engine_failed"),
    ],
)
def test_a_refusal_is_ours_by_its_code_and_never_in_the_engines_words(status: int, words: str, code: str) -> None:
    failed = failure_of(RequestId("r"), status, json.dumps({"error": {"message": words}}).encode())
    assert failed.code == code
    assert not words or words not in failed.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "one"}}', "one"),
        (b'{"error": "two"}', "two"),
        (b'{"success": false, "error_message": "three"}', "three"),
        (b'{"object": "error", "message": "four"}', "four"),
        (b"<html>", "<html>"),
        (b"{}", ""),
    ],
)
def test_an_engines_words_are_found_in_every_shape(body: bytes, words: str) -> None:
    assert words_of(body) == words
