"""NaN in safetensors files, found in every format of numbers."""

import json

import pytest

from hotset.core.errors import LoadFailedError
from hotset.engines.fake.numbers import holds_nan


def file_of(dtype: str, *numbers: bytes) -> bytes:
    values = b"".join(numbers)
    header = json.dumps({"t": {"dtype": dtype, "shape": [len(numbers)], "data_offsets": [0, len(values)]}})
    with_metadata = f'{{"__metadata__": {{"format": "pt"}}, {header[1:]}'.encode()
    return len(with_metadata).to_bytes(8, "little") + with_metadata + values


@pytest.mark.parametrize(
    ("dtype", "one", "infinite", "none"),
    [
        ("F32", "0000803f", "0000807f", "0000c07f"),
        ("F16", "003c", "007c", "007e"),
        ("BF16", "803f", "807f", "c07f"),
    ],
)
def test_a_nan_is_told_from_numbers_and_from_infinity(dtype: str, one: str, infinite: str, none: str) -> None:
    fine = [bytes.fromhex(one), bytes.fromhex(infinite)]
    assert not holds_nan(file_of(dtype, *fine))
    assert holds_nan(file_of(dtype, *fine, bytes.fromhex(none)))


def test_integers_are_always_numbers() -> None:
    assert not holds_nan(file_of("I32", b"\xff\xff\xff\x7f"))


@pytest.mark.parametrize("content", [b"\xff" * 64, b"\x08" + b"\0" * 7 + b"not JSON"])
def test_what_is_no_such_file_is_refused_in_vllms_words(content: bytes) -> None:
    with pytest.raises(LoadFailedError, match="Error while deserializing header"):
        holds_nan(content)
