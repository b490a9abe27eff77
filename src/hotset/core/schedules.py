"""Release schedules: when new versions may come to a pool, written ``mon-thu 09:00-16:00``, several joined by ``,``.

Times are UTC. A window ends on the day it begins. Days are one, or a range within the week.
"""

import re
from dataclasses import dataclass

from hotset.core.errors import InvalidRequestError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "|".join(_DAYS)
_WINDOW = re.compile(rf"({_DAY})(?:-({_DAY}))? ([0-2]\d):([0-5]\d)-([0-2]\d):([0-5]\d)", re.ASCII)
_DAY_S = 86_400
#: The epoch began on a Thursday.
_EPOCH_DAY = 3
_WINDOWS_MAX = 14


@dataclass(frozen=True, slots=True)
class Window:
    """From one minute of a day to another, on some days of the week; Monday is 0."""

    first_day: int
    last_day: int
    start_s: int
    end_s: int


def parse_schedule(text: str) -> tuple[Window, ...]:
    """Return the windows of a release schedule.

    Raises:
        InvalidRequestError: it is not one.
    """
    parts = text.split(",")
    windows = tuple(_window(part.strip()) for part in parts[:_WINDOWS_MAX])
    if len(parts) > _WINDOWS_MAX:
        raise InvalidRequestError(f"A release schedule has at most {_WINDOWS_MAX} windows.", param="release_schedule")
    return windows


def is_open(text: str, wall_s: float) -> bool:
    """Whether the schedule lets a new version come at this moment, in seconds since the epoch."""
    day, second = divmod(int(wall_s), _DAY_S)
    weekday = (day + _EPOCH_DAY) % 7
    return any(
        window.first_day <= weekday <= window.last_day and window.start_s <= second < window.end_s
        for window in parse_schedule(text)
    )


def _window(text: str) -> Window:
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise _refused(text)
    first, last = _DAYS.index(found[1]), _DAYS.index(found[2] or found[1])
    start_s, end_s = (int(found[at]) * 3600 + int(found[at + 1]) * 60 for at in (3, 5))
    if first > last or start_s >= end_s or end_s > _DAY_S:
        raise _refused(text)
    return Window(first, last, start_s, end_s)


def _refused(text: str) -> InvalidRequestError:
    message = f"{text[:80]!r} is no window of a release schedule: write it as 'mon-thu 09:00-16:00', in UTC."
    return InvalidRequestError(message, param="release_schedule")
