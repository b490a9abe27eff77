"""What counts as another answer of the base, and what is arithmetic in another order."""

import math

import pytest

from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Started, TokenLogprob
from hotset.worker.readings import Baseline, Reading, Token, baseline_of, read

ME = RequestId("r")
FAILED = Failed(ME, "engine_failed", "")


def reading(*logprobs: float, words: str = "abcdef", margin: float = 3.0) -> Reading:
    tokens = tuple(Token(word, logprob, margin) for word, logprob in zip(words, logprobs, strict=False))
    return Reading("".join(token.text for token in tokens), tokens)


def baseline(*readings: Reading) -> Baseline:
    found = baseline_of(readings)
    assert found is not None
    return found


def test_events_become_text_tokens_and_margins() -> None:
    best = TokenLogprob("a", b"a", -0.1, (TokenLogprob("a", b"a", -0.1), TokenLogprob("b", b"b", -2.6)))
    alone = TokenLogprob("b", b"b", -0.5)
    events: list[EngineEvent] = [
        Started(ME, 3),
        Delta(ME, 0, "a", 1, logprobs=(best,)),
        Delta(ME, 0, "b", 1, "length", logprobs=(alone,)),
        Finished(ME, 3, 2),
    ]
    assert read(events) == Reading("ab", (Token("a", -0.1, 2.5), Token("b", -0.5, math.inf)))
    assert read([Started(ME, 3), FAILED]) == FAILED


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        (reading(-0.10, -0.20, -0.30), None),
        (reading(-0.30, -0.20, -0.10), None),
        (reading(-0.36, -0.20, -0.30), "base_drifts"),
        (reading(-0.10, -0.20, math.nan), "base_not_finite"),
        (reading(-0.10, -0.20, -math.inf), "base_not_finite"),
        (reading(-0.10, -0.20, -0.30, words="abx"), "base_differs"),
        (reading(-0.10, -0.20), "base_differs"),
        (Reading("", ()), "base_failed"),
        (FAILED, "base_failed"),
    ],
)
def test_an_answer_is_compared_with_what_a_fresh_engine_said(answer: Reading | Failed, flaw: str | None) -> None:
    assert baseline(reading(-0.10, -0.20, -0.30), reading(-0.10, -0.20, -0.30)).flaw(answer) == flaw


def test_the_tolerance_is_what_was_measured_eight_times_over() -> None:
    found = baseline(reading(-0.10, -0.20), reading(-0.15, -0.20), reading(-0.10, -0.21))
    assert found.tolerance == pytest.approx(0.4)
    assert found.flaw(reading(-0.49, -0.20)) is None
    assert found.flaw(reading(-0.51, -0.20)) == "base_drifts"


def test_where_the_fresh_engine_was_not_sure_another_token_is_no_flaw() -> None:
    unsure = Reading("abc", (Token("a", -0.1, 3.0), Token("b", -0.7, 0.09), Token("c", -0.1, 3.0)))
    found = baseline(unsure)
    assert found.num_sure == 1
    assert found.flaw(reading(-0.1, -0.7, -0.1, words="axy")) is None
    assert found.flaw(reading(-0.1, -0.7, math.nan, words="axy")) == "base_not_finite"
    other = baseline(reading(-0.1, -0.2, -0.3), reading(-0.1, -0.2, -0.3, words="axc"))
    assert other.num_sure == 1


def test_without_log_probabilities_the_text_is_compared() -> None:
    found = baseline(Reading("one two", ()), Reading("one two", ()))
    assert found.flaw(Reading("one two", ())) is None
    assert found.flaw(Reading("one three", ())) == "base_differs"


@pytest.mark.parametrize(
    "readings",
    [
        [FAILED],
        [reading(-0.1), FAILED],
        [Reading("", ())],
        [reading(math.nan)],
        [Reading("one", ()), Reading("two", ())],
    ],
)
def test_an_engine_that_is_not_sound_by_itself_establishes_nothing(readings: list[Reading | Failed]) -> None:
    assert baseline_of(readings) is None
