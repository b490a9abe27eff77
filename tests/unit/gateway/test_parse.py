"""What a body may hold, and which field a refusal names."""

import json

import pytest

from hotset.core.errors import InvalidRequestError, UnsupportedParameterError
from hotset.core.messages import Message
from hotset.gateway.parse import parse_chat, parse_completion
from hotset.gateway.settings import GatewaySettings

SETTINGS = GatewaySettings()
CHAT = {"model": "support", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "support", "prompt": "hi"}


def chat(**fields: object) -> bytes:
    return json.dumps({**CHAT, **fields}).encode()


def text(**fields: object) -> bytes:
    return json.dumps({**TEXT, **fields}).encode()


def test_the_defaults_of_a_bare_request() -> None:
    asked = parse_chat(chat(), SETTINGS)
    assert (asked.model, asked.stream, asked.include_usage, asked.n) == ("support", False, False, 1)
    assert asked.messages == (Message(role="user", content="hi"),)
    assert asked.prompts is None
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.logprobs) == (1.0, 1.0, None, None)


def test_every_field_arrives() -> None:
    asked = parse_chat(
        chat(
            max_completion_tokens=5,
            temperature=0,
            top_p=0.5,
            n=3,
            stop=["a", "b"],
            seed=-4,
            presence_penalty=-2,
            frequency_penalty=2,
            logprobs=True,
            top_logprobs=4,
            stream=True,
            stream_options={"include_usage": True},
            user="someone",
            top_k=7,
            min_p=0.25,
            repetition_penalty=1.5,
            response_format={"type": "text"},
        ),
        SETTINGS,
    )
    sampling = asked.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.seed) == (5, 0.0, 0.5, -4)
    assert (sampling.stop, sampling.top_k, sampling.min_p) == (("a", "b"), 7, 0.25)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (-2.0, 2.0, 1.5)
    assert (sampling.logprobs, asked.n, asked.stream, asked.include_usage) == (4, 3, True, True)
    assert not sampling.ignore_eos


def test_explicit_nulls_mean_the_defaults() -> None:
    names = (
        *("max_tokens", "temperature", "top_p", "n", "stop", "seed", "presence_penalty", "frequency_penalty"),
        *("stream", "stream_options", "user", "top_k", "min_p", "repetition_penalty", "logprobs"),
    )
    nulls = dict.fromkeys(names)
    assert parse_chat(chat(**nulls), SETTINGS) == parse_chat(chat(), SETTINGS)
    assert parse_completion(text(**nulls, echo=None), SETTINGS) == parse_completion(text(), SETTINGS)


def test_text_parts_are_joined() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    asked = parse_chat(chat(messages=[{"role": "user", "content": content}]), SETTINGS)
    assert asked.messages == (Message(role="user", content="ab"),)


def test_prompts_of_every_form() -> None:
    assert parse_completion(text(prompt="a"), SETTINGS).prompts == ("a",)
    assert parse_completion(text(prompt=["a", "b"]), SETTINGS).prompts == ("a", "b")
    assert parse_completion(text(prompt=[1, 2]), SETTINGS).prompts == ((1, 2),)
    assert parse_completion(text(prompt=[[1], [2, 3]]), SETTINGS).prompts == ((1,), (2, 3))
    assert parse_completion(text(prompt=["a", "b"], n=3, logprobs=2), SETTINGS).num_choices == 6
    assert parse_completion(text(top_k=-1), SETTINGS).sampling.top_k == 0


def part(**fields: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": [fields]}]


UNSUPPORTED_CHAT = [
    ({"lora_path": "/x"}, "lora_path"),
    ({"lora_request": {}}, "lora_request"),
    ({"cache_salt": "x"}, "cache_salt"),
    ({"request_id": "x"}, "request_id"),
    ({"priority": 1}, "priority"),
    ({"chat_template": "x"}, "chat_template"),
    ({"extra_body": {"lora_path": "x"}}, "extra_body"),
    ({"api_base": "http://127.0.0.1"}, "api_base"),
    ({"tools": []}, "tools"),
    ({"tool_choice": "none"}, "tool_choice"),
    ({"functions": None}, "functions"),
    ({"logit_bias": {}}, "logit_bias"),
    ({"ignore_eos": True}, "ignore_eos"),
    ({"prompt": "x"}, "prompt"),
    ({"MODEL": "x"}, "MODEL"),
    ({"Model": "x"}, "Model"),
    ({"model ": "x"}, "model "),
    ({"": 1}, ""),
    ({"mödel": 1}, r"m\xf6del"),
    ({"x" * 500: 1}, "x" * 64),
    ({"a`b - at `$.c": 1}, None),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "text", "schema": {}}}, "response_format.schema"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"messages": part(type="image_url", image_url={"url": "http://169.254.169.254"})}, "messages[0].content[0]"),
    ({"messages": part(image_url={"url": "x"}, type="image_url")}, "messages[0].content[0].image_url"),
    ({"messages": part(type="input_audio", input_audio={})}, "messages[0].content[0]"),
    ({"messages": part(type="text", text="x", cache_control={})}, "messages[0].content[0].cache_control"),
    ({"messages": [{"role": "user", "content": "x", "name": "n"}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": "x", "Content": "n"}]}, "messages[0].Content"),
]


@pytest.mark.parametrize(("fields", "param"), UNSUPPORTED_CHAT)
def test_a_field_that_is_not_served_is_named(fields: dict[str, object], param: str | None) -> None:
    with pytest.raises(UnsupportedParameterError) as caught:
        parse_chat(chat(**fields), SETTINGS)
    if param is not None:
        assert caught.value.param == param


@pytest.mark.parametrize("field", ["suffix", "best_of", "logit_bias", "messages", "guided_json", "user_id"])
def test_a_completion_field_that_is_not_served_is_named(field: str) -> None:
    with pytest.raises(UnsupportedParameterError) as caught:
        parse_completion(text(**{field: None}), SETTINGS)
    assert caught.value.param == field


def test_echo_is_not_served() -> None:
    assert parse_completion(text(echo=False), SETTINGS)
    with pytest.raises(UnsupportedParameterError) as caught:
        parse_completion(text(echo=True), SETTINGS)
    assert caught.value.param == "echo"


DOUBLED = [
    b'{"model":"a","model":"b","messages":[{"role":"user","content":"hi"}]}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"model" :"b"}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"model"\n:"b"}',
    b'{"model" : "a", "messages" : [{"role" : "user", "content" : "hi"}], "model" : "b"}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"mod\\u0065l":"b"}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"n":null,"n":1}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"n":null,"n":null}',
    b'{"model":"a","messages":[{"role":"user","role":"system","content":"hi"}]}',
    b'{"model":"a","messages":[{"role":"user","content":"a","content":"b"}]}',
    b'{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}',
    b'{"model":"a","messages":[],"messages":[{"role":"user","content":"hi"}]}',
    (
        b'{"model":"a","messages":[{"role":"user","content":"a"}],"stream":true,"stream_options":'
        b'{"include_usage":true,"include_usage":true}}'
    ),
    b'{"model":"a","messages":[{"role":"user","content":"say \\"x\\": 1"}],"user":"a","user":"a"}',
]


@pytest.mark.parametrize("body", DOUBLED)
def test_a_key_that_appears_twice_is_refused(body: bytes) -> None:
    with pytest.raises((UnsupportedParameterError, InvalidRequestError)) as caught:
        parse_chat(body, SETTINGS)
    if isinstance(caught.value, UnsupportedParameterError):
        assert "twice" in caught.value.message
    else:
        assert body.count(b'"messages"') == 2


SINGLE = [
    b'{"model" : "a", "messages" : [{"role" : "user", "content" : "hi"}]}',
    b'{"model":"a","messages":[{"role":"user","content":"\\"model\\": twice \\"model\\": here"}]}',
    b'{\n  "model":\t"a",\r\n  "messages":[{"role":"user","content":"model: :) :"}]\n}',
    b'{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"response_format":{"type":"text"}}',
    b'{"model":"a","messages":[{"role":"assistant","content":"x","refusal":null},{"role":"user","content":"x"}]}',
]


@pytest.mark.parametrize("body", SINGLE)
def test_bodies_that_only_look_doubled_are_taken(body: bytes) -> None:
    assert parse_chat(body, SETTINGS).model == "a"


OUT_OF_RANGE = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.01}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 17}, "n"),
    ({"n": 1.5}, "n"),
    ({"n": 10**30}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 2**31}, "max_tokens"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": "x" * 257}, "stop"),
    ({"seed": 2**64}, "seed"),
    ({"presence_penalty": 2.01}, "presence_penalty"),
    ({"frequency_penalty": -2.01}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": 1.1}, "min_p"),
    ({"logprobs": 1}, "logprobs"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"stream": "true"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "assistant", "content": "x", "refusal": "no"}]}, "messages[0].refusal"),
    ({"model": None}, "model"),
    ({"model": 1}, "model"),
    ({"user": 5}, "user"),
]


@pytest.mark.parametrize(("fields", "param"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_chat(chat(**fields), SETTINGS)
    assert caught.value.param == param
    assert "`" not in caught.value.message


PROMPTS_REFUSED = [
    "",
    [],
    [""],
    ["a", ""],
    [[]],
    [1, "a"],
    [[1], "a"],
    [-1],
    [2**31],
    [[-1]],
    [1.5],
    {},
    None,
    ["a"] * 17,
]


@pytest.mark.parametrize("prompt", PROMPTS_REFUSED)
def test_a_prompt_that_is_none_is_refused(prompt: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_completion(text(prompt=prompt), SETTINGS)
    assert (caught.value.param or "").startswith("prompt")


def test_choices_are_bounded_over_all_prompts() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_completion(text(prompt=["a"] * 16, n=5), SETTINGS)
    assert caught.value.param == "n"
    with pytest.raises(InvalidRequestError) as caught:
        parse_chat(chat(messages=CHAT["messages"] * 3), GatewaySettings(messages_max=2))
    assert caught.value.param == "messages"


NOT_JSON = [
    b"",
    b"{",
    b"nonsense",
    b'{"model":"a","messages":[{"role":"user","content":"hi"}]}x',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"temperature":NaN}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"temperature":Infinity}',
    b'{"model":"a","messages":[{"role":"user","content":"hi"}],"temperature":1e999}',
    b'{"model":"\xff","messages":[{"role":"user","content":"hi"}]}',
    b'{"model":"\\ud800","messages":[{"role":"user","content":"hi"}]}',
    b'{"model":"a","messages":[{"role":"user","content":"\\udfff\\ud800"}]}',
    b'{"model":"\xed\xa0\x80","messages":[{"role":"user","content":"hi"}]}',
    b"\xef\xbb\xbf{}",
    b"[]",
    b"null",
    b'"text"',
    b"5",
    b"[" * 100_000,
    b'{"messages":' + b"[" * 100_000,
    b'{"model":"a","messages":[{"role":"user","content":' + b'{"a":' * 50_000,
]


@pytest.mark.parametrize("body", NOT_JSON, ids=range(len(NOT_JSON)))
@pytest.mark.parametrize("parse", [parse_chat, parse_completion])
def test_what_is_no_valid_body_is_a_400(body: bytes, parse: object) -> None:
    with pytest.raises((InvalidRequestError, UnsupportedParameterError)) as caught:
        parse(body, SETTINGS)  # type: ignore[operator]
    assert len(caught.value.message) < 300
    assert caught.value.message.isascii()


def test_a_missing_field_is_named() -> None:
    for body, param in ((b"{}", "model"), (b'{"model":"a"}', "messages")):
        with pytest.raises(InvalidRequestError) as caught:
            parse_chat(body, SETTINGS)
        assert (caught.value.param, caught.value.message) == (param, f"'{param}' is required.")
