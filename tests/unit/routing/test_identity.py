"""Of several agents with one identity one serves: who served last, or who comes once nobody lives."""

import pytest

from hotset.routing.identity import Claimant, Ruling, may_serve_alone, outranks, rule_on


def test_the_first_of_its_name_gets_a_fence() -> None:
    assert rule_on(0, None, is_alive=False) is Ruling.NEXT
    assert rule_on(3, None, is_alive=False) is Ruling.NEXT  # of another installation


@pytest.mark.parametrize("is_alive", [False, True])
def test_who_served_last_goes_on(is_alive: bool) -> None:
    assert rule_on(7, 7, is_alive=is_alive) is Ruling.KEEPS


@pytest.mark.parametrize("held_fence", [0, 6, 8])
def test_another_one_waits_until_nobody_lives(held_fence: int) -> None:
    assert rule_on(held_fence, 7, is_alive=True) is Ruling.REFUSED
    assert rule_on(held_fence, 7, is_alive=False) is Ruling.NEXT


def test_a_link_is_taken_by_the_same_process_or_by_one_that_served_later() -> None:
    linked = Claimant("one", 7)
    assert outranks(Claimant("two", 0), None)
    assert outranks(Claimant("one", 0), linked)
    assert outranks(Claimant("two", 8), linked)
    assert not outranks(Claimant("two", 7), linked)
    assert not outranks(Claimant("two", 0), Claimant("one", 0))


def test_without_control_goes_on_who_served_before_and_was_not_rejected() -> None:
    assert may_serve_alone(kept_fence=7, is_rejected=False, silence_s=2.0, patience_s=2.0)
    assert not may_serve_alone(kept_fence=7, is_rejected=False, silence_s=1.9, patience_s=2.0)
    assert not may_serve_alone(kept_fence=7, is_rejected=True, silence_s=2.0, patience_s=2.0)
    assert not may_serve_alone(kept_fence=0, is_rejected=False, silence_s=2.0, patience_s=2.0)
