"""Release schedules: what they let through, and what is none."""

import pytest

from hotset.core.errors import InvalidRequestError
from hotset.core.schedules import is_open, parse_schedule

MONDAY_S = 4 * 86_400  # the 5th of January 1970


def at(day: int, hour: int, minute: int = 0) -> float:
    return MONDAY_S + day * 86_400 + hour * 3600 + minute * 60


@pytest.mark.parametrize(
    ("day", "hour", "minute", "expected"),
    [(0, 9, 0, True), (0, 8, 59, False), (3, 15, 59, True), (3, 16, 0, False), (4, 12, 0, False), (5, 23, 59, True)],
)
def test_a_schedule_is_open_within_its_windows(day: int, hour: int, minute: int, expected: bool) -> None:
    assert is_open("mon-thu 09:00-16:00, sat 22:00-24:00", at(day, hour, minute)) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "always",
        "mon",
        "mon 9:00-16:00",
        "mon 09:00-09:00",
        "mon 16:00-09:00",
        "thu-mon 09:00-16:00",
        "mon 09:00-25:00",
        "mon 09:00-24:01",
        "mon 09:00-16:60",
        "mon 09:00-16:00,",
        ",".join(["mon 09:00-16:00"] * 15),
    ],
)
def test_anything_else_is_no_schedule(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_schedule(text)
