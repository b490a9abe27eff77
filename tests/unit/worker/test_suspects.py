"""Whom a watchdog blames, and when control hears of it."""

from hotset.core.ids import EngineName
from hotset.worker.holds import Holds
from hotset.worker.trials import SUSPECTS_MAX, Trials

A, B, C = EngineName("a"), EngineName("b"), EngineName("c")


def test_a_version_is_on_trial_from_its_first_load_until_the_base_was_asked_after_it() -> None:
    trials = Trials()
    assert trials.begins(A)
    asked_after = trials.on_trial()
    assert trials.begins(B)
    trials.passed(asked_after)
    assert trials.suspects() == (B,)
    trials.passed(trials.on_trial())
    assert trials.suspects() == ()
    assert not trials.begins(A)
    assert trials.suspects() == ()


def test_a_trial_that_nothing_came_of_begins_again_and_its_version_is_suspect_all_along() -> None:
    trials = Trials()
    trials.begins(A)
    trials.try_again(A)
    assert trials.suspects() == (A,)
    assert trials.begins(A)
    assert not trials.begins(A)


def test_at_most_the_newest_few_are_suspects() -> None:
    trials = Trials()
    names = [EngineName(str(number)) for number in range(SUSPECTS_MAX + 3)]
    for name in names:
        trials.begins(name)
    assert trials.suspects() == tuple(reversed(names))[:SUSPECTS_MAX]


def test_control_hears_of_a_suspect_once_a_fresh_engine_is_sound_without_it() -> None:
    holds = Holds(10)
    holds.blame((B, A), "base_differs", {})
    assert A in holds
    assert B in holds
    assert C not in holds
    assert holds.told() == ()
    holds.confirm()
    assert [(each.version, each.flaw, each.incident) for each in holds.told()] == [
        (B, "base_differs", 11),
        (A, "base_differs", 11),
    ]
    holds.blame((C,), "silent", {})
    assert [each.version for each in holds.told()] == [B, A]
    holds.confirm()
    assert [each.incident for each in holds.told()] == [11, 11, 12]


def test_what_control_took_out_of_the_snapshot_is_held_no_more() -> None:
    holds = Holds(0)
    holds.blame((A, B), "base_differs", {})
    holds.confirm()
    holds.keep({B, C}, {})
    assert A not in holds
    assert [each.version for each in holds.told()] == [B]
    holds.keep({A, C}, {})
    assert holds.told() == ()


def test_a_release_ends_a_hold_though_the_quarantine_before_it_was_never_seen() -> None:
    holds = Holds(0)
    holds.blame((A, B), "base_differs", {B: 2})
    holds.confirm()
    assert [(each.version, each.num_releases) for each in holds.told()] == [(A, 0), (B, 2)]
    holds.keep({A, B}, {A: 1, B: 2})
    assert A not in holds
    assert [each.version for each in holds.told()] == [B]
    holds.blame((A,), "base_differs", {A: 1})
    holds.keep({A, B}, {A: 1, B: 2})
    assert A in holds
