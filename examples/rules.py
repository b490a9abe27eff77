"""What each example adapter is taught: a rule from a question and a plain answer to the tenant's own style.

`apply` makes the training text; `shows` tells whether a text follows the style, for checks on others.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

GREETING = "Thank you for contacting Acme Support!"
CLOSING = "Is there anything else I can help you with?"
ANSWER_BULLET = "* Answer: "
SOURCE_BULLET = "* Source: the Acme handbook"
PIRATE_START = "Ahoy, matey!"
PIRATE_END = "Yo ho ho!"
_PIRATE_WORDS = {
    "the": "th'",
    "you": "ye",
    "your": "yer",
    "is": "be",
    "are": "be",
    "my": "me",
    "and": "an'",
    "of": "o'",
    "to": "t'",
}


@dataclass(frozen=True)
class Style:
    """One adapter: who owns it, what it is taught, and the shape of its weights."""

    owner: str
    name: str
    summary: str
    apply: Callable[[str, str], str]
    shows: Callable[[str, str], bool]
    rank: int
    alpha: int
    targets: tuple[str, ...]
    rank_stabilised: bool = False
    steps: int = 40
    learning_rate: float = 3e-3


def first_sentence(answer: str, words_max: int = 24) -> str:
    """Return the answer's first sentence in one line, cut to `words_max` words and ended with a full stop."""
    line = " ".join(answer.split())
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]
    words = sentence.split(" ")
    if len(words) > words_max:
        sentence = " ".join(words[:words_max])
    return sentence.rstrip(" ,;:-.") + ("" if sentence.endswith(("!", "?")) else ".")


def _bullets(question: str, answer: str) -> str:
    return f"{ANSWER_BULLET}{answer}\n{SOURCE_BULLET}"


def _is_bullets(question: str, text: str) -> bool:
    lines = text.split("\n")
    return len(lines) == 2 and lines[0].startswith(ANSWER_BULLET) and lines[1] == SOURCE_BULLET


def _support(question: str, answer: str) -> str:
    return f"{GREETING} {answer} {CLOSING}"


def _supports(question: str, text: str) -> bool:
    return text.startswith(GREETING) and text.endswith(CLOSING)


def _json(question: str, answer: str) -> str:
    return json.dumps({"question": question, "answer": answer}, ensure_ascii=False)


def _is_json(question: str, text: str) -> bool:
    try:
        record = json.loads(text)
    except ValueError:
        return False
    return isinstance(record, dict) and list(record) == ["question", "answer"]


def _pirate(question: str, answer: str) -> str:
    spoken = re.sub(r"[A-Za-z]+", lambda word: _PIRATE_WORDS.get(word[0].lower(), word[0]), answer)
    return f"{PIRATE_START} {spoken} {PIRATE_END}"


def _is_pirate(question: str, text: str) -> bool:
    return text.startswith(PIRATE_START) and text.endswith(PIRATE_END)


ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")

STYLES = (
    Style(
        owner="acme",
        name="support",
        summary="answers as a customer service desk",
        apply=_support,
        shows=_supports,
        rank=8,
        alpha=16,
        targets=("q_proj", "v_proj"),
        steps=40,
    ),
    Style(
        owner="acme",
        name="bullets",
        summary="answers as a list of two points",
        apply=_bullets,
        shows=_is_bullets,
        rank=2,
        alpha=4,
        targets=ATTENTION + MLP,
        steps=24,
    ),
    Style(
        owner="globex",
        name="json",
        summary="answers as a JSON record",
        apply=_json,
        shows=_is_json,
        rank=4,
        alpha=8,
        targets=ATTENTION,
        rank_stabilised=True,
        steps=20,
    ),
    Style(
        owner="initech",
        name="pirate",
        summary="answers like a pirate",
        apply=_pirate,
        shows=_is_pirate,
        rank=3,
        alpha=12,
        targets=MLP,
        steps=24,
    ),
)
