"""Predictions from what was seen."""

import random

import pytest

from hotset.admission.first_token import NOTHING, FirstTokenTimes, Learnt, Prediction


def test_what_was_never_seen_predicts_nothing() -> None:
    assert Learnt().predict() == NOTHING
    assert not Learnt().is_known
    assert FirstTokenTimes().load("cold", 100) == NOTHING


def test_one_observation_is_expected_again_and_held_against_with_room() -> None:
    learnt = Learnt()
    learnt.add(2.0)
    assert learnt.is_known
    assert learnt.predict() == Prediction(2.0, 3.5)


def test_steady_times_leave_little_room_and_a_change_is_followed() -> None:
    learnt = Learnt()
    for _ in range(100):
        learnt.add(1.0)
    assert learnt.predict().safe_s == pytest.approx(1.0, rel=0.01)
    for _ in range(50):
        learnt.add(3.0)
    assert learnt.predict().expected_s == pytest.approx(3.0, rel=0.01)


def test_the_safe_side_is_nearly_always_enough() -> None:
    chance, learnt, enough = random.Random(1), Learnt(), 0
    for number in range(2000):
        seconds = chance.gammavariate(9.0, 0.01)
        enough += number >= 50 and seconds <= learnt.predict().safe_s
        learnt.add(seconds)
    assert enough / 1950 > 0.98


def test_a_load_is_predicted_from_its_tier_and_the_nearest_size() -> None:
    times = FirstTokenTimes()
    times.loaded("warm", 1_000, 0.1)
    times.loaded("warm", 1_000_000, 1.0)
    times.loaded("cold", 1_000, 5.0)
    assert times.load("warm", 900).expected_s == 0.1
    assert times.load("warm", 500_000).expected_s == 1.0
    assert times.load("cold", 10_000_000).expected_s == 5.0


def test_a_tier_that_was_not_seen_is_predicted_from_the_other() -> None:
    times = FirstTokenTimes()
    times.loaded("cold", 1_000, 5.0)
    assert times.load("warm", 1_000).expected_s == 5.0


def test_a_turn_takes_the_places_share_of_those_ahead() -> None:
    times = FirstTokenTimes()
    times.request.add(4.0)
    assert times.turn(num_ahead=3, places=8).expected_s == 2.0


def test_predictions_add_up_and_run_down() -> None:
    total = Prediction(1.0, 2.0) + Prediction(0.5, 0.5)
    assert total == Prediction(1.5, 2.5)
    assert total.less(2.0) == Prediction(0.0, 0.5)
    assert total.times(2.0) == Prediction(3.0, 5.0)
