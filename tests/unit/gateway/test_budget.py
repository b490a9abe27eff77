"""What counts as a first-token budget, and what is left of it."""

import time

import pytest

from hotset.core.errors import AdapterColdError, InvalidRequestError, TooManyRequestsError
from hotset.core.ports import Waiting
from hotset.gateway.budget import NO_BUDGET, Budget, first_token_budget, refusal_of
from hotset.gateway.request_head import RequestHead, read_head

OWN = b"hotset-first-token-budget-ms"


def head_of(*fields: tuple[bytes, bytes]) -> RequestHead:
    return read_head([(b"host", b"h"), *fields])


def prefer(*values: bytes) -> RequestHead:
    return head_of(*((b"prefer", value) for value in values))


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("value", "ms"), [(b"1", 1), (b"750", 750), (b"600000", 600_000), (b" 20\t", 20), (b"0030", 30)]
)
def test_its_own_header_is_a_whole_number_in_range(value: bytes, ms: int, *, is_stream: bool) -> None:
    assert first_token_budget(head_of((OWN, value)), is_stream=is_stream, default_ms=9) == Budget(ms)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b" ", b"0", b"-1", b"+1", b"600001", b"1.5", b"1e3", b"0x10", b"1_000", b"1,2", b"10 ms", b"ten"),
        *(b"\xd9\xa1", b"\xb2", b"1;q=1", b'"10"', b"nan", b"9" * 15, b"9" * 30_000),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_anything_else_in_it_is_an_error_that_names_it(value: bytes, *, is_stream: bool) -> None:
    with pytest.raises(InvalidRequestError, match="Hotset-First-Token-Budget-Ms") as caught:
        first_token_budget(head_of((OWN, value), (b"prefer", b"wait=1")), is_stream=is_stream, default_ms=0)
    assert caught.value.param == "hotset-first-token-budget-ms"


def test_two_of_it_are_an_error_even_if_they_agree() -> None:
    for times in (2, 3):
        with pytest.raises(InvalidRequestError):
            first_token_budget(head_of(*((OWN, b"10"),) * times), is_stream=False, default_ms=0)


WAITS = [
    ((b"wait=10",), 10),
    ((b"WAIT = 10",), 10),
    ((b"wait=010",), 10),
    ((b"wait=1",), 1),
    ((b"wait=600",), 600),
    ((b"\twait\t=\t5 ",), 5),
    ((b"wait=5; x=y",), 5),
    ((b'wait=5;x="a;b,c"',), 5),
    ((b"respond-async, wait=5",), 5),
    ((b"return=minimal", b"wait=5"), 5),
    ((b"handling=lenient, , wait=5,",), 5),
    ((b'no-such-thing="a, wait=7", wait=5',), 5),
    ((b'other="a \\" , wait=7", wait=5',), 5),
    ((b"wait=5", b"wait=7"), 5),
    ((b"wait=5, wait=x",), 5),
]


@pytest.mark.parametrize(("values", "seconds"), WAITS)
def test_a_wait_that_can_be_read_counts_and_is_answered(values: tuple[bytes, ...], seconds: int) -> None:
    budget = first_token_budget(prefer(*values), is_stream=False, default_ms=9)
    assert budget == Budget(seconds * 1000, b"wait=%d" % seconds, prefers_async=values[0].startswith(b"respond"))


NO_WAITS = [
    *(b"", b"wait", b"wait=", b"wait=0", b"wait=601", b"wait=-1", b"wait=1.5", b"wait=ten", b"wait=5 s", b'wait="5"'),
    *(
        b"wait=\xd9\xa1",
        b"waits=5",
        b"await=5",
        b"x;wait=5",
        b"wait:5",
        b"=5",
        b'x="wait=5',
        b'x="a, wait=5',
        b"wait==5",
    ),
    *(b"wait=x, wait=5", b"return=representation", b"respond-asynchronously", b'\\, "', b"wait=" + b"9" * 30_000),
]


@pytest.mark.parametrize("value", NO_WAITS)
def test_a_wait_that_can_not_be_read_is_passed_over(value: bytes) -> None:
    assert first_token_budget(prefer(value), is_stream=False, default_ms=0) == NO_BUDGET
    assert first_token_budget(prefer(value), is_stream=False, default_ms=9) == Budget(9)


@pytest.mark.parametrize(
    ("value", "prefers"),
    [(b"respond-async", True), (b'Respond-Async=""', True), (b"respond-async=no", False), (b"x; respond-async", False)],
)
def test_an_answer_later_may_be_preferred(value: bytes, *, prefers: bool) -> None:
    assert first_token_budget(prefer(value), is_stream=False, default_ms=0).prefers_async is prefers
    own = head_of((b"prefer", value), (OWN, b"70"))
    assert first_token_budget(own, is_stream=False, default_ms=0) == Budget(70, prefers_async=prefers)


def test_its_own_header_goes_before_the_preference_which_is_then_not_applied() -> None:
    head = head_of((b"prefer", b"wait=5"), (OWN, b"70"))
    assert first_token_budget(head, is_stream=False, default_ms=0) == Budget(70)


def test_a_wait_is_for_answers_that_are_not_streamed() -> None:
    assert first_token_budget(prefer(b"wait=5"), is_stream=True, default_ms=0) == NO_BUDGET


@pytest.mark.parametrize(
    "value", [b"respond-async", b"Respond-Async; x=1", b"wait=5, respond-async", b'respond-async=""']
)
def test_a_stream_is_never_answered_asynchronously(value: bytes) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        first_token_budget(prefer(value), is_stream=True, default_ms=0)
    assert caught.value.param == "prefer"


@pytest.mark.parametrize(
    "value", [b"respond-async=yes", b'x="respond-async', b"x; respond-async", b"respond-asynchronous"]
)
def test_what_only_looks_like_it_is_passed_over(value: bytes) -> None:
    assert first_token_budget(prefer(value), is_stream=True, default_ms=0) == NO_BUDGET


@pytest.mark.parametrize("piece", [b'"', b"\\", b'"\\', b',"', b'a="', b"=", b" ", b",", b'"a\\"b,'])
def test_reading_takes_time_in_proportion_to_the_header(piece: bytes) -> None:
    before = time.process_time()
    first_token_budget(prefer(piece * (250_000 // len(piece))), is_stream=False, default_ms=0)
    assert time.process_time() - before < 1.0


@pytest.mark.parametrize(
    ("ms", "spent_s", "left"),
    [(500, 0.0, 500), (500, 0.0001, 499), (500, 0.2, 300), (500, 0.5, 1), (500, 9.0, 1), (1, 0, 1)],
)
def test_what_is_left_is_at_least_a_millisecond(ms: int, spent_s: float, left: int) -> None:
    assert Budget(ms).left_ms(0.0, spent_s) == left


def test_nothing_is_left_of_no_budget() -> None:
    assert NO_BUDGET.left_ms(1.0, 2.0) is None


def test_a_wait_that_may_well_meet_its_budget_goes_on() -> None:
    for left_s in (2.0, 1.96, float("inf")):
        assert refusal_of(Waiting("loading", 2.0), left_s) is None
    assert refusal_of(Waiting("loading", None), 0.001) is None, "nobody can tell"


def test_a_wait_that_will_miss_its_budget_ends_with_the_time_to_come_back() -> None:
    cold = refusal_of(Waiting("loading", 2.0), 1.5)
    assert isinstance(cold, AdapterColdError)
    assert cold.retry_after_ms == 2000, "then it is in its slot"
    crowded = refusal_of(Waiting("hot", 2.0), 1.5)
    assert isinstance(crowded, TooManyRequestsError)
    assert crowded.retry_after_ms == 500, "then the budget is met"
