"""What `residency show` says of the slots' width and of the local store."""

import math
from typing import Any

import pytest

from hotset.cli.commands.residency import _needed_in, _tell_store, _tell_width

MB = 1_000_000


def worker_of(*ranks: int | None, slot_bytes: int = 8 * MB, computes_own_rank: bool = True) -> dict[str, Any]:
    slots = [
        {"version": rank and f"acme/r{rank}@1", "rank": rank, "slot_bytes": rank and rank * MB // 8} for rank in ranks
    ]
    return {"rank_class": 64, "slot_bytes": slot_bytes, "computes_own_rank": computes_own_rank, "slots": slots}


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_what_one_version_of_a_high_rank_costs_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    _tell_width(worker_of(8, 64, 16, None))
    assert said(capsys) == [
        (
            "Each slot is as large as rank 64, 8.0 MB. Slots with versions: 3, together 24.0 MB; "
            "the versions need 11.0 MB of it."
        ),
        "acme/r64@1 alone needs rank 64; the others need 16 at most.",
        "A step computes each version at its own rank.",
    ]


def test_slots_wider_than_all_that_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    _tell_width(worker_of(8, 8, computes_own_rank=False))
    assert said(capsys)[1:] == [
        "None of them needs more than rank 8.",
        "A step computes each version at the rank of its slot.",
    ]


def test_nothing_is_said_of_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    _tell_width(worker_of(None, slot_bytes=0))
    assert said(capsys) == []


def test_the_store_is_shown_by_tenant_with_whose_files_went(capsys: pytest.CaptureFixture[str]) -> None:
    tenant = {
        "tenant": "acme",
        "slot_bytes": 2 * MB,
        "store_bytes": 5 * MB,
        "reserve_bytes": 3 * MB,
        "limit_bytes": 9 * MB,
        "store_caused": {"reserve": 1},
        "store_suffered": {"own": 4},
    }
    idle = {**tenant, "tenant": "quiet", "store_bytes": 0, "reserve_bytes": 0}
    warm = {"num_versions": 2, "bytes": 5 * MB, "bytes_max": 9 * MB, "largest": []}
    cut = {"tenant": "acme", "reserve_bytes": 4 * MB, "given": 3 * MB}
    _tell_store({"tenants": [tenant, idle], "byte_reserves_cut": [cut]}, warm)
    first, head, row, last = said(capsys)
    assert first == "Local store: 5.0 MB of 9.0 MB, versions: 2."
    assert head.split("  ")[0] == "tenant"
    assert row.split() == ["acme", "2.0", "MB", "5.0", "MB", "3.0", "MB", "9.0", "MB", "reserve", "1", "own", "4"]
    assert last == "Byte reserve of acme cut to 3.0 MB of 4.0 MB: all of them pass the local store."


def test_when_a_version_is_needed_is_told_as_the_seconds_that_its_worth_is_made_of() -> None:
    assert _needed_in({"worth": math.log(0.5 / 600), "load_s": 0.5}) == "10.0 min"
    assert _needed_in({"worth": math.log(0.001 / 3), "load_s": 0.0001}) == "3.0 s"
    assert _needed_in({"worth": None, "load_s": 0.5}) is None
    assert _needed_in({"worth": -1.0, "load_s": None}) is None
