"""From a body's bytes to one struct: what is no JSON, has an unknown field or a wrong type is told by the field's name.

No key may appear twice anywhere: two readers of one body must never see two requests. The exact search for doubles
is slow, so a count that can only err towards searching decides whether it runs.
"""

import json
from collections.abc import Callable
from typing import TypeVar

import msgspec

from hotset.core.errors import HotsetError, InvalidRequestError, UnsupportedParameterError

_UNKNOWN_FIELD = "Object contains unknown field `"
_AT = " - at `$"
_NAME_CHARS_MAX = 64

_Body = TypeVar("_Body", bound=msgspec.Struct)


def decode_body(decode: Callable[[bytes], _Body], body: bytes) -> _Body:
    """Decode a body into its struct.

    Raises:
        InvalidRequestError: not JSON, a missing field, a wrong type or a value out of range.
        UnsupportedParameterError: a field that is not served.
    """
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRequestError("The body is not valid JSON in UTF-8.") from None
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply.") from None


def refuse_doubles_among(body: bytes, num_keys: int) -> None:
    """Refuse a key that appears twice in one object; quick where the text holds no more keys than were decoded.

    Each key of the JSON text ends in a quote and a colon; without blanks between, there are at least as many
    ``":`` as keys. As many as distinct keys were decoded means that none came twice.

    Args:
        body: The text.
        num_keys: How many distinct keys were decoded from it, each in its own object.

    Raises:
        UnsupportedParameterError: one does.
    """
    if body.count(b'":') == num_keys and b" :" not in body and not _has_line_before_colon(body):
        return
    refuse_doubles(body)


def refuse_doubles(body: bytes) -> None:
    """Refuse a key that appears twice in one object, by the exact and slow search.

    Raises:
        UnsupportedParameterError: one does.
    """
    json.loads(body, object_pairs_hook=_refuse_double)


def _has_line_before_colon(body: bytes) -> bool:
    return b"\n:" in body or b"\t:" in body or b"\r:" in body


def _refuse_double(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            shown = _printable(name)
            raise UnsupportedParameterError(f"'{shown}' appears twice.", param=shown)
        seen.add(name)


def _field_error(message: str) -> HotsetError:
    """The error for msgspec's words about one field, such as ``Expected `int` <= 16 - at `$.n```."""
    said, at, path = message.rpartition(_AT)
    if not at:
        said, path = message, ""
    param = path.rstrip("`").lstrip(".")
    if said.startswith(_UNKNOWN_FIELD):
        name = _printable(said.removeprefix(_UNKNOWN_FIELD).rstrip("`"))
        param = f"{param}.{name}" if param else name
        return UnsupportedParameterError(f"'{param}' is not supported.", param=param)
    if said.startswith("Invalid enum value") and param.endswith(".type"):
        param = param.removesuffix(".type")
        return UnsupportedParameterError(f"Only '{param}' of type 'text' is supported.", param=param)
    if said.startswith("Object missing required field"):
        missing = said.split("`")[1]
        param = f"{param}.{missing}" if param else missing
        return InvalidRequestError(f"'{param}' is required.", param=param)
    shown = _printable(said.replace("`", ""), 200)
    return InvalidRequestError(f"'{param}': {shown}." if param else f"{shown}.", param=param or None)


def _printable(text: str, chars_max: int = _NAME_CHARS_MAX) -> str:
    return ascii(text[:chars_max])[1:-1]
