"""The equality check itself: what it forgives, what it must not, and how it reads tokens."""

from pathlib import Path

import pytest

from tests.acceptance.greedy import END, TIE_LOGITS_MAX, ReferenceAnswer, compare
from tests.acceptance.reference import Reference
from tests.support.bases import SPECIAL_TOKENS, make_tiny_base

ANSWER = ReferenceAnswer(tokens=(b"a", b"b", b"c", END), leads=(1.0, TIE_LOGITS_MAX / 2, 2.0, 3.0), prompt_tokens=5)


def test_the_same_tokens_are_equal() -> None:
    assert compare(ANSWER, ANSWER.tokens).is_equal


def test_a_divergence_at_a_tie_is_forgiven_and_counted() -> None:
    verdict = compare(ANSWER, (b"a", b"x", b"y", b"z"))

    assert verdict.is_equal
    assert verdict.is_tie
    assert verdict.position == 1


@pytest.mark.parametrize(
    "tokens",
    [
        (b"x", b"b", b"c", END),  # before the tie
        (b"a", b"b", b"x", END),  # after the tie, which was taken as the reference took it
        (b"a", b"b", b"c", b"d"),  # went on where the reference ended
        (b"a", b"b", b"c"),  # too short
        (b"a",),
        (*ANSWER.tokens, b"d"),  # too long
        (),
    ],
)
def test_any_other_divergence_is_a_difference(tokens: tuple[bytes, ...]) -> None:
    assert not compare(ANSWER, tokens).is_equal


def test_tokens_are_read_as_their_own_bytes(tmp_path: Path) -> None:
    reference = Reference(make_tiny_base(tmp_path / "base"))

    ids = reference.tokenizer("the é\n")["input_ids"]

    assert b"".join(reference.token_bytes(token) for token in ids) == "the é\n".encode()
    assert reference.token_bytes(reference.tokenizer.eos_token_id) == END
    start = reference.tokenizer.convert_tokens_to_ids(SPECIAL_TOKENS[1])
    assert reference.token_bytes(start) == SPECIAL_TOKENS[1].encode()
