"""JSON as RFC 8259 has it and no further: one object, each key once, finite numbers, bounded size and depth.

Readers that keep the first and the last of two equal keys disagree; so neither is kept.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from hotset.core.errors import VersionRefusedError
from hotset.registry.refusals import Refusal, refusal, shown

#: Bytes of a configuration file; real ones have a few thousand.
CONFIG_BYTES_MAX = 1 << 20
DEPTH_MAX = 32
#: Strings, objects and lists; they take many times their length in memory.
ITEMS_MAX = 4_000_000

#: A string (perhaps cut off, so that no text is scanned twice) or a bracket.
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(
    content: bytes | memoryview, name: str, *, bytes_max: int = CONFIG_BYTES_MAX, items_max: int = ITEMS_MAX
) -> dict[str, Any]:
    """Return the JSON object in `content`.

    Args:
        content: UTF-8 without a byte order mark.
        name: Of the file, for messages.
        bytes_max: Larger files are refused unread.
        items_max: Files with more strings, objects and lists are refused unparsed.

    Raises:
        VersionRefusedError: ``file_too_large`` or ``json_invalid``.
    """
    view = memoryview(content)
    if view.nbytes > bytes_max:
        message = f"{name} has {view.nbytes} bytes; at most {bytes_max} are read. Leave out what is not needed."
        raise refusal(Refusal.FILE_TOO_LARGE, message, name)
    try:
        text = str(view, "utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(name, f"it is not UTF-8 ({error.reason} at byte {error.start})") from error
    _check_structure(text, name, items_max)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise _invalid(name, str(error)) from error
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value, name)
    if not isinstance(value, dict):
        raise _invalid(name, "its top level is not an object")
    return cast(dict[str, Any], value)


def walk_strings(value: object) -> Iterator[str]:
    """Yield every string in a parsed value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast(dict[str, object], value).items():
            yield key
            yield from walk_strings(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from walk_strings(item)


def _check_structure(text: str, name: str, items_max: int) -> None:
    depth = 0
    for index, match in enumerate(_STRUCTURE.finditer(text)):
        if index >= items_max:
            raise _invalid(name, f"it holds more than {items_max} strings, objects and lists")
        symbol = text[match.start()]
        if symbol in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise _invalid(name, f"it nests deeper than {DEPTH_MAX} levels")
        elif symbol in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} is there twice")
            seen.add(key)
    return result


def _check_surrogates(value: object, name: str) -> None:
    for text in walk_strings(value):
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise _invalid(name, f"the text {shown(text)} holds half of a character")


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON number")


def _finite_float(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {literal[:40]} is out of range")
    return value


def _invalid(name: str, why: str) -> VersionRefusedError:
    message = f"{name} is not valid JSON for this purpose: {why[:200]}. Write it again with a JSON library."
    return refusal(Refusal.JSON_INVALID, message, name)
