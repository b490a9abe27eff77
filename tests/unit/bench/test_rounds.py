import pytest

from hotset.bench.rounds import Block, Outcomes, interleave, over_rounds, ratio_over_rounds


def test_each_round_visits_every_side_under_every_load_in_turn() -> None:
    blocks = list(interleave(["a", "b"], ["x", "y"], 2))
    assert [(b.round, b.load, b.side) for b in blocks] == [
        (0, "x", "a"),
        (0, "x", "b"),
        (0, "y", "a"),
        (0, "y", "b"),
        (1, "x", "a"),
        (1, "x", "b"),
        (1, "y", "a"),
        (1, "y", "b"),
    ]


def test_outcomes_are_read_by_side_and_load() -> None:
    outcomes = Outcomes[int]()
    for number, block in enumerate(interleave(["a", "b"], ["x", "y"], 2)):
        outcomes.add(block, number)
    assert outcomes.rounds("b", "x") == {0: 1, 1: 5}


def test_a_block_is_measured_once() -> None:
    outcomes = Outcomes[int]()
    outcomes.add(Block(0, "x", "a"), 1)
    with pytest.raises(ValueError, match="twice"):
        outcomes.add(Block(0, "x", "a"), 2)


def test_ratios_pair_values_of_the_same_round_and_skip_rounds_one_side_lacks() -> None:
    taken = ratio_over_rounds({0: 10.0, 1: 30.0, 2: 5.0}, {0: 5.0, 1: 3.0, 3: 1.0})
    assert taken is not None
    assert (taken.low, taken.high, taken.rounds) == (2.0, 10.0, 2)


def test_no_shared_round_gives_no_ratio() -> None:
    assert ratio_over_rounds({0: 1.0}, {1: 1.0}) is None
    assert ratio_over_rounds({0: 1.0}, {0: 0.0}) is None
    assert over_rounds({}) is None
