"""Lengths of time as people write them."""

import re

from hotset.core.errors import InvalidRequestError

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


def parse_duration_s(text: str) -> float:
    """Return seconds: a whole number and one of ``s m h d``, such as ``90d``.

    Raises:
        InvalidRequestError: the text is anything else, or no time at all.
    """
    match = _DURATION.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise InvalidRequestError(f"{text!r} is no length of time; write 30m, 12h or 90d.", param="duration")
    return float(int(match[1]) * _UNIT_S[match[2]])
