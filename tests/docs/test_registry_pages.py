"""The pages on refusals and on the life cycle say what the code says."""

import re
from pathlib import Path

from hotset.registry import refusals
from hotset.registry.lifecycle import render_table
from hotset.registry.refusals import Refusal
from hotset.registry.verify import OVERRIDES

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(refusals.__file__)
ROW = re.compile(r"^\| `([a-z_]+)` \| (.+) \|$", re.MULTILINE)


def test_every_refusal_is_on_its_page_in_the_words_of_the_code() -> None:
    stated = dict(ROW.findall((DOCS / "refusals.md").read_text().partition("## Warnings")[0]))
    lines = re.findall(r'((?: {4}#: .*\n)+) {4}[A-Z_]+ = "([a-z_]+)"', SOURCE.read_text())
    in_code = {code: " ".join(line.strip()[3:] for line in comment.strip().splitlines()) for comment, code in lines}

    assert set(in_code) == {reason.value for reason in Refusal}, "each reason has a comment"
    assert stated == in_code


def test_every_warning_is_on_the_page() -> None:
    stated = dict(ROW.findall((DOCS / "refusals.md").read_text().partition("## Warnings")[2]))
    room = "".join(path.read_text() for path in SOURCE.parent.glob("*.py"))
    given = set(re.findall(r'\(\s*"([a-z_]+)",\s*message\)', room))

    assert given | OVERRIDES == set(stated)


def test_the_life_cycle_page_is_printed_from_the_table() -> None:
    assert render_table() in (DOCS / "lifecycle.md").read_text()
