"""The header parser believes no number that the rest of the file does not bear out."""

from typing import Any

import numpy as np
import pytest

from hotset.core.errors import VersionRefusedError
from hotset.registry.safetensors_header import HEADER_BYTES_MAX, parse_header
from tests.support.safetensors_writer import pack, safetensors_bytes

GOOD: dict[str, Any] = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def parse(content: bytes) -> dict[str, Any]:
    return parse_header(memoryview(content), "w.safetensors")


def test_tensors_come_in_order_of_their_bytes() -> None:
    tensors = {"b": np.ones((2, 3), np.float32), "a": np.zeros(4, np.float32), "c": np.zeros((0, 7), np.float32)}
    content = safetensors_bytes(tensors)

    entries = parse(content)

    assert list(entries) == ["a", "b", "c"]
    assert entries["b"].shape == (2, 3)
    assert content[entries["b"].start : entries["b"].end] == tensors["b"].tobytes()
    assert entries["c"].start == entries["c"].end == len(content)


def test_a_file_without_metadata_or_tensors_is_well_formed() -> None:
    assert parse(pack({}, b"")) == {}
    assert set(parse(pack({"a": GOOD}, bytes(24)))) == {"a"}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00" * 7, id="short"),
        pytest.param((2).to_bytes(8, "little") + b"[]", id="list"),
        pytest.param((0).to_bytes(8, "little"), id="no header"),
        pytest.param((1 << 63).to_bytes(8, "little") + b"{}", id="huge"),
        pytest.param((HEADER_BYTES_MAX + 1).to_bytes(8, "little") + bytes(HEADER_BYTES_MAX + 1), id="over cap"),
        pytest.param((3).to_bytes(8, "little") + b"{}", id="longer than file"),
        pytest.param((3).to_bytes(8, "little") + b" {}", id="leading space"),
        pytest.param(pack({"__metadata__": []}, b""), id="metadata list"),
        pytest.param(pack({"__metadata__": {"a": 1}}, b""), id="metadata number"),
        pytest.param(pack({"a": 1}, b""), id="entry number"),
        pytest.param(pack({"a": {**GOOD, "x": 1}}, bytes(24)), id="extra entry"),
        pytest.param(pack({"a": {**GOOD, "dtype": "F5"}}, bytes(24)), id="dtype"),
        pytest.param(pack({"a": {**GOOD, "dtype": ["F32"]}}, bytes(24)), id="dtype list"),
        pytest.param(pack({"a": {**GOOD, "shape": [2, -3]}}, bytes(24)), id="negative"),
        pytest.param(pack({"a": {**GOOD, "shape": [2.0, 3]}}, bytes(24)), id="float size"),
        pytest.param(pack({"a": {**GOOD, "shape": [True, 6]}}, bytes(24)), id="bool size"),
        pytest.param(pack({"a": {**GOOD, "shape": "23"}}, bytes(24)), id="text shape"),
        pytest.param(pack({"a": {**GOOD, "shape": [1] * 9}}, bytes(24)), id="dimensions"),
        pytest.param(pack({"a": {**GOOD, "shape": [1 << 62, 1 << 62]}}, bytes(24)), id="product"),
        pytest.param(pack({"a": {**GOOD, "data_offsets": [0]}}, bytes(24)), id="one offset"),
        pytest.param(pack({"a": {**GOOD, "data_offsets": [24, 0]}}, bytes(24)), id="backwards"),
        pytest.param(pack({"a": {**GOOD, "data_offsets": [0, 23]}}, bytes(24)), id="size"),
        pytest.param(pack({"a": {**GOOD, "data_offsets": [8, 32]}}, bytes(32)), id="gap"),
        pytest.param(pack({"a": GOOD, "b": GOOD}, bytes(48)), id="overlap"),
        pytest.param(pack({"a": GOOD}, bytes(23)), id="cut"),
        pytest.param(pack({"a": GOOD}, bytes(25)), id="trailing"),
        pytest.param(pack({}, b"x"), id="bytes without tensors"),
        pytest.param(
            pack({str(n): {**GOOD, "shape": [0], "data_offsets": [0, 0]} for n in range(20_001)}, b""), id="many"
        ),
    ],
)
def test_a_malformed_file_is_refused(content: bytes) -> None:
    with pytest.raises(VersionRefusedError) as caught:
        parse(content)

    assert caught.value.reason == "safetensors_invalid"
    assert "w.safetensors" in caught.value.message


def test_a_name_that_is_there_twice_is_refused() -> None:
    text = (
        b'{"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    )

    with pytest.raises(VersionRefusedError) as caught:
        parse(len(text).to_bytes(8, "little") + text + b"x")
    assert caught.value.reason == "json_invalid"
