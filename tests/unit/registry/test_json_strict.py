"""Strict JSON: one object, each key once, finite numbers, bounded size and depth."""

import json

import pytest

from hotset.core.errors import VersionRefusedError
from hotset.registry.json_strict import DEPTH_MAX, parse_object


def refused(content: bytes, **limits: int) -> VersionRefusedError:
    with pytest.raises(VersionRefusedError) as caught:
        parse_object(content, "some.json", **limits)
    assert caught.value.param == "some.json"
    return caught.value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Expecting value"),
        (b"[]", "not an object"),
        (b"1", "not an object"),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"x": {"a": 1, "b": 2, "a": 3}}', "'a' is there twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e400}', "out of range"),
        (b'{"a": ' + b"1" * 5000 + b"}", "digits"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": ["\\ud800"]}', "half of a character"),
        (b'{"\\udfff": 1}', "half of a character"),
        (b'{"a": "\x01"}', "control character"),
        (b'{"a": 1,}', "property name"),
        (b"{'a': 1}", "property name"),
    ],
)
def test_what_readers_could_disagree_on_is_refused(content: bytes, words: str) -> None:
    error = refused(content)

    assert error.reason == "json_invalid"
    assert words in error.message


def test_depth_is_bounded_before_parsing() -> None:
    at_limit = b'{"a":' + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1) + b"}"

    assert parse_object(at_limit, "some.json")
    assert "deeper" in refused(b'{"a":' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}").message
    assert "deeper" in refused(b'{"a":' * 100_000).message


def test_brackets_in_text_are_no_depth() -> None:
    value = {"a": "[" * 100 + '\\"{', "b": '"' + "{" * 100}

    assert parse_object(json.dumps(value).encode(), "some.json") == value


def test_an_endless_text_is_read_in_linear_time() -> None:
    assert refused(b'{"a": "' + b'\\"' * 400_000).reason == "json_invalid"


def test_size_is_bounded() -> None:
    assert refused(b'{"a": 1}', bytes_max=7).reason == "file_too_large"
    assert parse_object(b'{"a": 1}', "some.json", bytes_max=8) == {"a": 1}


def test_the_number_of_items_is_bounded() -> None:
    assert "more than 10" in refused(b'{"a": [' + b"[]," * 10 + b"[]]}", items_max=10).message
    assert "more than 10" in refused(b'{"a": [' + b'"",' * 10 + b'""]}', items_max=10).message


def test_surrogate_pairs_are_characters() -> None:
    assert parse_object(b'{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}', "some.json")["a"] == "\U0001f600"
