"""Numbers of bytes as people write them."""

import re

from hotset.core.errors import InvalidRequestError

_LETTERS = "KMGT"
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(_LETTERS, start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate(_LETTERS, start=1)},
}
_SIZE = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))? ?([KMGT]i?B|B|)", re.ASCII)


def parse_size(text: str) -> int:
    """Return bytes: a number and one of ``B KB MB GB TB KiB MiB GiB TiB``, such as ``512MiB``, ``1.5 GB`` or ``4096``.

    Raises:
        InvalidRequestError: the text is anything else, or no whole number of bytes.
    """
    match = _SIZE.fullmatch(text)
    if match:
        whole, part, unit = match[1], match[2] or "", match[3]
        num_bytes, rest = divmod(int(whole + part) * _UNITS[unit], 10 ** len(part))
        if not rest:
            return num_bytes
    raise InvalidRequestError(f"{text!r} is no number of bytes; write 512MiB, 1.5GB or 4096.", param="size")


def read_size(value: object) -> object:
    """Return the bytes that a text of a file stands for; anything that is no text as it is.

    Raises:
        ValueError: the text is no number of bytes.
    """
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except InvalidRequestError as error:
        raise ValueError(error.message) from error
