"""The rotation bench's figures from blocks made by hand, and LRU's guess."""

import math

import pytest

from hotset.bench.crowd import BlockTaken
from hotset.bench.report import Row, Section
from hotset.bench.rotation_report import build_report
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.stats import upper_bound
from hotset.bench.workers import LastUse
from hotset.core.ids import EngineName

KINDS = ("control", "rotation", "lru")


def taken(first_token_s: float, num_tokens: int, num_refused: int = 0) -> BlockTaken:
    return BlockTaken((first_token_s,) * 20, num_tokens, num_refused, 10.0)


def outcomes(rounds: int) -> Outcomes[BlockTaken]:
    made = Outcomes[BlockTaken]()
    for number in range(rounds):
        made.add(Block(number, "", "control"), taken(0.1, 1000))
        made.add(Block(number, "", "rotation"), taken(0.11, 900, 3))
        made.add(Block(number, "", "lru"), taken(1.0, 600))
    return made


def row(section: Section, side: str) -> Row:
    return next(each for each in section.rows if each.side == side)


def figure(section: Section, side: str, key: str) -> float:
    found = row(section, side).figures[key]
    assert found is not None
    return found.median


def test_first_tokens_rates_and_ratios() -> None:
    blocks, ratios = build_report({}, KINDS, outcomes(3)).sections
    assert figure(blocks, "control", "p95") == pytest.approx(100.0)
    assert figure(blocks, "rotation", "tokens") == 90.0
    assert figure(blocks, "rotation", "refused") == 3.0
    assert figure(ratios, "rotation / control", "p95") == pytest.approx(1.1)
    assert figure(ratios, "lru / control", "p95") == pytest.approx(10.0)
    assert figure(ratios, "rotation / lru", "tokens") == pytest.approx(1.5)


def test_the_bound_is_said_from_two_rounds_on() -> None:
    assert all("no bound" in note for note in build_report({}, KINDS, outcomes(1)).notes)
    p95, p99 = build_report({}, KINDS, outcomes(2)).notes
    assert p95.endswith("p95 ratio to the control: 1.10")
    assert p99.endswith("p99 ratio to the control: 1.10")


def test_without_a_side_of_lru_its_ratios_are_left_out_and_victims_refused_are_told() -> None:
    made = Outcomes[BlockTaken]()
    for number in range(2):
        made.add(Block(number, "", "control"), taken(0.1, 1000))
        made.add(Block(number, "", "rotation"), BlockTaken((0.1,) * 20, 900, 3, 10.0, 2))
    report = build_report({}, KINDS[:2], made)
    assert [each.side for each in report.sections[1].rows] == ["rotation / control"]
    assert "rotation: 4 of the victims' requests were refused or failed" in report.notes[-1]


def test_a_block_without_any_answer_counts_as_long_as_it_took() -> None:
    assert BlockTaken((), 0, 5, 10.0).first_token_p95_s == 10.0


def test_the_upper_bound_of_ratios() -> None:
    assert upper_bound([1.2, 1.2, 1.2]) == pytest.approx(1.2)
    logs = [math.log(value) for value in (0.9, 1.0, 1.1, 1.2, 1.0)]
    mean = sum(logs) / 5
    deviation = math.sqrt(sum((each - mean) ** 2 for each in logs) / 4)
    assert upper_bound([0.9, 1.0, 1.1, 1.2, 1.0]) == pytest.approx(math.exp(mean + 2.13 * deviation / math.sqrt(5)))
    with pytest.raises(ValueError, match="two rounds"):
        upper_bound([1.0])


def test_lru_guesses_by_last_use_alone() -> None:
    guess, a, b = LastUse(), EngineName("a"), EngineName("b")
    for at_s in (1.0, 2.0, 3.0):
        guess.asked(a, at_s)
    guess.asked(b, 4.0)
    of_a, of_b, of_unasked = guess.log_seconds_of([a, b, EngineName("c")], 10.0)
    assert of_b < of_a < of_unasked == math.inf
    guess.forget(frozenset({b}))
    assert guess.log_seconds_of([a], 10.0) == [math.inf]
