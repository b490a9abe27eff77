"""A tokenizer that comes with an adapter must give the base's ids and prompts; how it is written does not matter."""

import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hotset.core.errors import VersionRefusedError
from hotset.core.ids import Digest
from hotset.registry.artifact import Artifact
from hotset.registry.tokenizer_facts import read_tokenizer_facts
from hotset.registry.verify import VerifyPolicy, verify
from tests.support.adapters import tiny_base_version
from tests.support.bad_adapters import adapter_files
from tests.support.bases import CHAT_TEMPLATE, tiny_tokenizer

TOKENIZER: dict[str, Any] = json.loads(tiny_tokenizer().to_str())
SETTINGS: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|endoftext|>",
    "eos_token": "<|im_end|>",
    "add_bos_token": False,
    "chat_template": CHAT_TEMPLATE,
    "added_tokens_decoder": {"262": {"content": "<|endoftext|>", "special": True}},
}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


BASE_FILES = {
    "tokenizer.json": encoded(TOKENIZER),
    "tokenizer_config.json": encoded(SETTINGS),
    "tokenizer.model": b"model bytes",
}
FACTS = read_tokenizer_facts(BASE_FILES)
BASE = tiny_base_version(tokenizer=FACTS)


def reason(files: dict[str, bytes], base: Any = BASE) -> str:
    """Return why an adapter that ships these files is refused; empty if it is admitted."""
    try:
        verify(Artifact.of(adapter_files(files=files)), base, VerifyPolicy(rank_max=16))
    except VersionRefusedError as error:
        return error.reason
    return ""


def changed(value: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> bytes:
    result = copy.deepcopy(value)
    change(result)
    return encoded(result)


def test_the_facts_of_a_base() -> None:
    assert FACTS.vocab_size == 266
    assert FACTS.added_tokens == {"<|endoftext|>": 262, "<|im_start|>": 263, "<|im_end|>": 264, "<|pad|>": 265}
    assert FACTS.settings == {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_bos_token": False}
    assert msgspec.json.decode(msgspec.json.encode(FACTS), type=type(FACTS)) == FACTS


def test_a_copy_of_the_bases_files_is_admitted() -> None:
    assert reason({name: BASE_FILES[name] for name in ("tokenizer.json", "tokenizer_config.json")}) == ""


SAME: dict[str, Callable[[dict[str, Any]], Any]] = {
    "truncation": lambda t: t.update(truncation={"max_length": 8, "strategy": "LongestFirst", "stride": 0}),
    "padding": lambda t: t.update(padding={"strategy": "BatchLongest"}),
    "decoder": lambda t: t.update(decoder=None),
    "merges as text": lambda t: t["model"].update(merges=[" ".join(pair) for pair in t["model"]["merges"]]),
    "new default": lambda t: t["model"].update(ignore_merges=False, byte_fallback=False),
    "older file": lambda t: t["pre_tokenizer"].pop("use_regex"),
    "offsets": lambda t: t["pre_tokenizer"].update(trim_offsets=False),
    "order of keys": lambda t: t.update(model=dict(reversed(t["model"].items()))),
    "special flag": lambda t: t["added_tokens"][0].update(special=False),
}


@pytest.mark.parametrize("change", list(SAME.values()), ids=list(SAME))
def test_a_tokenizer_that_gives_the_same_ids_is_admitted(change: Callable[[dict[str, Any]], Any]) -> None:
    assert reason({"tokenizer.json": changed(TOKENIZER, change)}) == ""


OTHER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "vocabulary": lambda t: t["model"]["vocab"].update({"!": 1, '"': 0}),
    "merges": lambda t: t["model"]["merges"].reverse(),
    "normalizer": lambda t: t.update(normalizer={"type": "NFC"}),
    "pre-tokenizer": lambda t: t["pre_tokenizer"].update(add_prefix_space=True),
    "regex": lambda t: t["pre_tokenizer"].update(use_regex=False),
    "post-processor": lambda t: t.update(post_processor={"type": "ByteLevel"}),
    "ignore merges": lambda t: t["model"].update(ignore_merges=True),
    "added token": lambda t: t["added_tokens"][0].update(lstrip=True),
    "added token id": lambda t: t["added_tokens"][0].update(id=261),
    "fewer added tokens": lambda t: t["added_tokens"].pop(),
    "pre-tokenizer list": lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}]}),
}


@pytest.mark.parametrize("change", list(OTHER.values()), ids=list(OTHER))
def test_a_tokenizer_that_gives_other_ids_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    assert reason({"tokenizer.json": changed(TOKENIZER, change)}) == "tokenizer_differs"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ""),
        ({"padding_side": "left", "model_max_length": 5, "pad_token": "<|endoftext|>"}, ""),
        ({"eos_token": {"content": "<|im_end|>", "lstrip": False}}, ""),
        ({"eos_token": "<|endoftext|>"}, "tokenizer_differs"),
        ({"bos_token": None}, ""),
        ({"add_bos_token": True}, "tokenizer_differs"),
        ({"add_bos_token": False, "add_eos_token": False}, ""),
        ({"add_eos_token": True}, "tokenizer_differs"),
        ({"added_tokens_decoder": {"264": {"content": "<|im_end|>"}}}, ""),
        ({"added_tokens_decoder": {"263": {"content": "<|im_end|>"}}}, "tokenizer_differs"),
        ({"added_tokens_decoder": {"266": {"content": "<|tool|>"}}}, "extra_vocabulary"),
        ({"added_tokens_decoder": {"x": {"content": "<|tool|>"}}}, "json_invalid"),
        ({"added_tokens_decoder": {"1": {}}}, "json_invalid"),
    ],
)
def test_settings_are_compared_where_they_change_ids(settings: dict[str, Any], expected: str) -> None:
    assert reason({"tokenizer_config.json": encoded(settings)}) == expected
    if "added_tokens_decoder" not in settings:
        assert reason({"special_tokens_map.json": encoded(settings)}) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"chat_template.jinja": CHAT_TEMPLATE.encode()}, ""),
        ({"chat_template.jinja": CHAT_TEMPLATE.replace("\n", "\r\n").encode() + b"\n"}, ""),
        ({"chat_template.jinja": b" " + CHAT_TEMPLATE.encode()}, "chat_template_differs"),
        ({"chat_template.jinja": b"\xff"}, "json_invalid"),
        ({"tokenizer_config.json": encoded({"chat_template": CHAT_TEMPLATE})}, ""),
        ({"tokenizer_config.json": encoded({"chat_template": "{{ x }}"})}, "chat_template_differs"),
        ({"tokenizer_config.json": encoded({"chat_template": [{"name": "default", "template": CHAT_TEMPLATE}]})}, ""),
        ({"tokenizer_config.json": encoded({"chat_template": [{"name": "rag", "template": "x"}]})}, ""),
        (
            {
                "chat_template.jinja": CHAT_TEMPLATE.encode(),
                "tokenizer_config.json": encoded({"chat_template": "old"}),
            },
            "",
        ),
    ],
)
def test_templates_are_compared_by_what_they_render(files: dict[str, bytes], expected: str) -> None:
    assert reason(files) == expected


def test_the_older_formats_are_compared_where_tokenizer_json_is_not_shipped() -> None:
    vocabulary = encoded(TOKENIZER["model"]["vocab"])
    merges = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in TOKENIZER["model"]["merges"]), ""]).encode()

    assert reason({"vocab.json": vocabulary, "merges.txt": merges}) == ""
    assert reason({"vocab.json": encoded({"a": 1})}) == "tokenizer_differs"
    assert reason({"vocab.json": encoded({"a": "1"})}) == "json_invalid"
    assert reason({"merges.txt": merges.replace(b"h e", b"e h")}) == "tokenizer_differs"
    assert reason({"vocab.json": encoded({"a": 1}), "tokenizer.json": encoded(TOKENIZER)}) == ""


def test_a_sentencepiece_model_is_compared_byte_for_byte() -> None:
    digest = Digest("sha256:" + hashlib.sha256(b"model bytes").hexdigest())
    base = msgspec.structs.replace(BASE, files={"tokenizer.model": digest})

    assert reason({"tokenizer.model": b"model bytes"}, base) == ""
    assert reason({"tokenizer.model": b"other bytes"}, base) == "tokenizer_differs"
    assert reason({"tokenizer.model": b"model bytes"}) == "tokenizer_differs"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ({"<|im_end|>": 264}, ""),
        ({"<|im_end|>": 263}, "tokenizer_differs"),
        ({"<|tool|>": 12}, "tokenizer_differs"),
        ({"<|tool|>": 266}, "extra_vocabulary"),
    ],
)
def test_added_tokens_must_be_the_bases(tokens: dict[str, int], expected: str) -> None:
    assert reason({"added_tokens.json": encoded(tokens)}) == expected


@pytest.mark.parametrize(
    "tokenizer",
    [
        {},
        {"model": {}},
        {"model": {"vocab": {"a": "0"}}},
        {"model": {"vocab": {"a": True}}},
        {"model": {"vocab": [["a", -1.5]]}},
        {"model": {"vocab": {"a": 0}, "merges": ["a"]}},
        {"model": {"vocab": {"a": 0}, "merges": [["a", 1]]}},
        {"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]},
        {"model": {"vocab": {"a": 0}}, "added_tokens": [{"content": "b", "id": 1 << 40}]},
        {"model": {"vocab": {"a": 0}}, "added_tokens": ["b"]},
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tokenizer: dict[str, Any]) -> None:
    assert reason({"tokenizer.json": encoded(tokenizer)}) == "json_invalid"
