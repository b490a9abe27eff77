"""The cliff: its points, its figures from blocks made by hand, its picture."""

import xml.etree.ElementTree as ET

import pytest

from hotset.bench import cliff
from hotset.bench.crowd import BlockTaken
from hotset.bench.plot import Line, draw
from hotset.bench.rounds import Block, Outcomes
from hotset.bench.stats import Spread
from hotset.bench.workers import EngineChoice

POINTS = ["4", "8"]


def taken(first_token_s: float) -> BlockTaken:
    return BlockTaken((first_token_s,) * 20, 1000, 0, 10.0)


def outcomes(rounds: int) -> Outcomes[BlockTaken]:
    made = Outcomes[BlockTaken]()
    for number in range(rounds):
        for side, seconds in ((cliff.HOTSET, (0.1, 0.11)), (cliff.LRU, (0.1, 2.0))):
            for point, first_token_s in zip(POINTS, seconds, strict=True):
                made.add(Block(number, point, side), taken(first_token_s))
    return made


def test_points_go_from_half_the_slots_to_five_times_as_many() -> None:
    assert cliff.Settings(engine=EngineChoice(), num_slots=8).points() == [4, 8, 16, 24, 40]
    assert cliff.Settings(engine=EngineChoice(), num_slots=4).points()[0] == 3


def test_each_side_is_held_against_its_own_control() -> None:
    report = cliff.build_report({}, POINTS, outcomes(2))
    ours, theirs = report.sections
    ratio = ours.rows[1].figures["ratio"], theirs.rows[1].figures["ratio"]
    assert ratio[0] is not None
    assert ratio[1] is not None
    assert (ratio[0].median, ratio[1].median) == (pytest.approx(1.1), pytest.approx(20.0))
    assert report.notes == ("8 active: upper 95% bound of hotset's p95 ratio to 4 active 1.10",)
    assert cliff.build_report({}, POINTS, outcomes(1)).notes == ("8 active: one round gives no bound",)


def test_the_picture_is_svg_and_higher_is_slower() -> None:
    root = ET.fromstring(cliff.build_picture(POINTS, outcomes(2)))
    circles = [each for each in root if each.tag.endswith("circle")]
    heights = [float(circle.attrib["cy"]) for circle in circles]
    assert len(heights) == 4
    assert heights[0] == heights[2] > heights[1] > heights[3]


def test_a_line_may_have_gaps_and_names_are_escaped() -> None:
    one = Spread(median=5.0, low=4.0, high=6.0, rounds=2)
    root = ET.fromstring(draw("a < b", "x", "y", [1, 2], [Line("a & b", (None, one)), Line("none", (None, None))]))
    assert len([each for each in root if each.tag.endswith("circle")]) == 1
    assert "a & b" in [each.text for each in root]
