"""Which texts are numbers of bytes."""

import pytest

from hotset.cli.sizes import parse_size, read_size
from hotset.core.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4096", 4096),
        ("17B", 17),
        ("512MiB", 512 << 20),
        ("1 GiB", 1 << 30),
        ("1.5GB", 1_500_000_000),
        ("0.5KiB", 512),
        ("2TB", 2 * 10**12),
        ("1.250KB", 1250),
    ],
)
def test_these_are(text: str, expected: int) -> None:
    assert parse_size(text) == expected
    assert read_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "+1", "1e9", "1.5B", "0.0001KB", "1  GB", "1gb", "1Mb", "1.", ".5KB", "١"]
)
def test_these_are_none(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="is no number of bytes"):
        parse_size(text)
    with pytest.raises(ValueError, match="is no number of bytes"):
        read_size(text)


@pytest.mark.parametrize("value", [5, None, True, 1.5])
def test_what_is_no_text_is_left_as_it_is(value: object) -> None:
    assert read_size(value) is value
