"""Estimates of when a version is asked for again."""

import math

import pytest

from hotset.core.ids import EngineName
from hotset.residency.reuse import Reuse

A, B = EngineName("hs-a"), EngineName("hs-b")


def asked_at(reuse: Reuse, name: EngineName, times_s: list[float]) -> None:
    for at_s in times_s:
        reuse.asked(name, at_s)


def test_a_version_never_asked_for_is_infinitely_far() -> None:
    assert Reuse().log_seconds(A, 0.0) == math.inf


def test_without_gaps_the_longer_ago_the_farther() -> None:
    reuse = Reuse()
    reuse.asked(A, 0.0)
    reuse.asked(B, 10.0)
    assert reuse.log_seconds(B, 20.0) < reuse.log_seconds(A, 20.0)
    assert reuse.log_seconds(A, 20.0) < reuse.log_seconds(A, 20.1) < reuse.log_seconds(A, 80.0)


def test_a_burst_that_is_over_is_farther_than_steady_use_that_rests_longer() -> None:
    reuse = Reuse()
    asked_at(reuse, A, [float(10 * number) for number in range(21)])  # every 10 s, last at 200
    asked_at(reuse, B, [t for start in range(0, 200, 100) for t in (start, start + 0.1, start + 0.2, start + 0.3)])
    asked_at(reuse, B, [200.0, 200.1, 200.2, 200.3])
    assert reuse.log_seconds(A, 206.0) < reuse.log_seconds(B, 206.0)
    assert reuse.log_seconds(B, 200.35) < reuse.log_seconds(A, 200.35)


def test_a_steady_version_comes_nearer_with_its_hour() -> None:
    reuse = Reuse()
    asked_at(reuse, A, [float(10 * number) for number in range(21)])
    assert reuse.log_seconds(A, 208.0) < reuse.log_seconds(A, 201.0)


def test_of_a_gap_longer_than_any_seen_of_a_version_everybodys_say_how_long_it_lasts() -> None:
    short, long = Reuse(), Reuse()
    for reuse, seconds in ((short, 2_000.0), (long, 200_000.0)):
        asked_at(reuse, B, [seconds * number for number in range(200)])
        asked_at(reuse, A, [0.0, 1.0, 2.0])
    assert short.log_seconds(A, 1002.0) < long.log_seconds(A, 1002.0)
    assert long.log_seconds(A, 1002.0) == pytest.approx(math.log(200_000.0), abs=0.5)


def test_weights_are_scaled_down_before_they_overflow_and_nothing_changes() -> None:
    seldom, often = Reuse(), Reuse()
    asked_at(seldom, A, [float(number) for number in range(1_000)])
    asked_at(often, A, [float(number) for number in range(100_000)])
    assert often.log_seconds(A, 100_000.5) == pytest.approx(seldom.log_seconds(A, 1_000.5), abs=0.05)


def test_what_may_not_be_served_is_forgotten() -> None:
    reuse = Reuse()
    reuse.asked(A, 0.0)
    reuse.asked(B, 0.0)
    reuse.forget(frozenset({B}))
    assert reuse.log_seconds(A, 1.0) == math.inf
    assert reuse.log_seconds(B, 1.0) < math.inf


def test_very_short_and_very_long_gaps_have_bins_too() -> None:
    reuse = Reuse()
    asked_at(reuse, A, [0.0, 0.0, 1e-6, 1e9, 3e9])
    assert math.isfinite(reuse.log_seconds(A, 3e9 + 1e-3))
