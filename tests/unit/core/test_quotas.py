"""Which numbers make a quota, and what a change leaves alone."""

import math

import pytest

from hotset.cli.sections import SECTIONS
from hotset.core.errors import InvalidRequestError
from hotset.core.quotas import DEFAULT_QUOTA, SLOTS_MAX, STORE_BYTES_MAX, Quota, QuotaChange, change_quota, check_quota
from hotset.engines import settings as engine_settings

SET = Quota(reserve_slots=2, limit_slots=4, loads_per_minute=30.0)


@pytest.mark.parametrize(
    "quota",
    [
        DEFAULT_QUOTA,
        SET,
        Quota(0, 1, 0.01),
        Quota(3, 3),
        Quota(SLOTS_MAX, SLOTS_MAX, 60_000),
        Quota(SLOTS_MAX, None),
        Quota(reserve_bytes=10, limit_bytes=10),
        Quota(reserve_bytes=STORE_BYTES_MAX),
    ],
)
def test_these_are_quotas(quota: Quota) -> None:
    check_quota(quota)


@pytest.mark.parametrize(
    ("quota", "param"),
    [
        (Quota(-1), "reserve_slots"),
        (Quota(SLOTS_MAX + 1), "reserve_slots"),
        (Quota(10**30), "reserve_slots"),
        (Quota(0, 0), "limit_slots"),
        (Quota(0, -1), "limit_slots"),
        (Quota(0, SLOTS_MAX + 1), "limit_slots"),
        (Quota(3, 2), "limit_slots"),
        (Quota(reserve_bytes=-1), "reserve_bytes"),
        (Quota(reserve_bytes=STORE_BYTES_MAX + 1), "reserve_bytes"),
        (Quota(limit_bytes=0), "limit_bytes"),
        (Quota(reserve_bytes=11, limit_bytes=10), "limit_bytes"),
        (Quota(loads_per_minute=0.0), "loads_per_minute"),
        (Quota(loads_per_minute=-1.0), "loads_per_minute"),
        (Quota(loads_per_minute=5e-324), "loads_per_minute"),
        (Quota(loads_per_minute=60_001.0), "loads_per_minute"),
        (Quota(loads_per_minute=math.inf), "loads_per_minute"),
        (Quota(loads_per_minute=math.nan), "loads_per_minute"),
    ],
)
def test_these_are_none_and_the_part_at_fault_is_named(quota: Quota, param: str) -> None:
    with pytest.raises(InvalidRequestError, match=param) as caught:
        check_quota(quota)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, SET),
        ({"reserve_slots": 4}, Quota(4, 4, 30.0)),
        ({"limit_slots": 9}, Quota(2, 9, 30.0)),
        ({"loads_per_minute": 6}, Quota(2, 4, 6)),
        ({"limit_slots": None}, Quota(2, None, 30.0)),
        ({"reserve_slots": None, "loads_per_minute": None}, Quota(0, 4, None)),
        ({"reserve_slots": 8, "limit_slots": 8}, Quota(8, 8, 30.0)),
        ({"reserve_bytes": 5}, Quota(2, 4, 30.0, 5)),
        ({"reserve_bytes": None, "limit_bytes": 7}, Quota(2, 4, 30.0, 0, 7)),
    ],
)
def test_a_change_leaves_alone_what_it_does_not_name(change: QuotaChange, expected: Quota) -> None:
    assert change_quota(SET, change) == expected


@pytest.mark.parametrize("change", [QuotaChange(reserve_slots=5), QuotaChange(limit_slots=1)])
def test_a_change_is_judged_with_what_it_leaves(change: QuotaChange) -> None:
    with pytest.raises(InvalidRequestError, match="below reserve_slots"):
        change_quota(SET, change)


def test_a_quota_may_name_as_many_slots_as_an_engine_may_have() -> None:
    assert engine_settings.BOUNDS["num_slots"][1] == SLOTS_MAX


def test_a_quota_may_name_as_many_bytes_as_a_local_store_may_hold() -> None:
    assert SECTIONS["worker"][1]["warm_bytes_max"][1] == STORE_BYTES_MAX


def test_a_message_names_bounds_in_full() -> None:
    with pytest.raises(InvalidRequestError, match=r"reserve_bytes is from 0 to 17592186044416\."):
        check_quota(Quota(reserve_bytes=-1))
