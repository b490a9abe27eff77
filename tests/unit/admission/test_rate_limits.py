"""What may be used in a minute is used once, by whoever it belongs to, and comes back as time goes by."""

import sys
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.admission.prompt_length import estimated_tokens
from hotset.admission.rate_limits import UNBOUND, Bucket, Meter, RateLimits
from hotset.core.errors import RequestRateExceededError, TokenRateExceededError, TooManyRequestsError
from hotset.core.ids import KeyId, RequestId, TenantId
from hotset.core.messages import Generate, Message, Sampling
from hotset.core.terms import DEFAULT_TERMS, Terms

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
KEY, OTHER_KEY = KeyId("key-1"), KeyId("key-2")


def limits_of(tenant: Terms = DEFAULT_TERMS, key: Terms = DEFAULT_TERMS, *, num_gateways: int = 1) -> RateLimits:
    limits = RateLimits(retry_after_ms=250)
    tenants = {} if tenant == DEFAULT_TERMS else {ACME: tenant}
    limits.apply(tenants, {} if key == DEFAULT_TERMS else {KEY: key}, num_gateways, 0.0)
    return limits


def test_a_minutes_worth_may_be_used_at_once_and_the_next_comes_evenly() -> None:
    limits = limits_of(Terms(requests_per_minute=6))
    for _ in range(6):
        limits.meter(ACME, KEY).enter(100.0)
    with pytest.raises(RequestRateExceededError) as caught:
        limits.meter(ACME, KEY).enter(100.0)
    assert caught.value.retry_after_ms == 10_000
    limits.meter(GLOBEX, KEY).enter(100.0)
    with pytest.raises(RequestRateExceededError):
        limits.meter(ACME, KEY).enter(109.9)
    limits.meter(ACME, KEY).enter(110.0)


def test_a_request_that_is_refused_takes_nothing() -> None:
    limits = limits_of(Terms(requests_per_minute=6), Terms(requests_per_minute=1))
    limits.meter(ACME, KEY).enter(0.0)
    for _ in range(10):
        with pytest.raises(RequestRateExceededError):
            limits.meter(ACME, KEY).enter(0.0)
    assert requests_left(limits.meter(ACME, OTHER_KEY), 0.0) == [5.0]


def test_tenant_and_key_are_counted_side_by_side() -> None:
    limits = limits_of(Terms(requests_per_minute=600), Terms(requests_per_minute=60))
    limits.meter(ACME, KEY).enter(0.0)
    assert requests_left(limits.meter(ACME, KEY), 0.0) == [599, 59]
    assert requests_left(limits.meter(ACME, OTHER_KEY), 0.0) == [599]
    assert limits.meter(GLOBEX, OTHER_KEY) is UNBOUND
    assert tokens_left(limits.meter(ACME, KEY), 0.0) == []


def requests_left(meter: Meter, now_s: float) -> list[float]:
    return [round(bucket.level(now_s), 6) for bucket in meter.limits.requests]


def tokens_left(meter: Meter, now_s: float) -> list[float]:
    return [round(bucket.level(now_s), 6) for bucket in meter.limits.tokens]


def test_tokens_are_taken_by_estimate_as_they_come_and_set_right_at_the_end() -> None:
    meter = limits_of(Terms(tokens_per_minute=600)).meter(ACME, KEY)
    meter.expect(100, 0.0)
    assert tokens_left(meter, 0.0) == [500]
    meter.use(40, 0.0)  # the prompt was shorter than it looked
    assert tokens_left(meter, 0.0) == [560]
    meter.use(90, 1.0)  # 50 generated; 10 filled up
    assert tokens_left(meter, 1.0) == [520]
    meter.use(0, 1.0)  # nothing of it counts after all
    assert tokens_left(meter, 1.0) == [600]


def test_an_answer_that_runs_may_overdraw_and_nothing_new_begins_until_that_is_made_good() -> None:
    limits = limits_of(Terms(tokens_per_minute=60))
    first = limits.meter(ACME, KEY)
    first.expect(10, 0.0)
    first.use(90, 0.0)
    with pytest.raises(TokenRateExceededError) as caught:
        limits.meter(ACME, KEY).expect(10, 0.0)
    assert caught.value.retry_after_ms == 40_000
    limits.meter(ACME, KEY).expect(10, 40.0)


def test_a_prompt_longer_than_a_minutes_worth_waits_for_a_whole_minute() -> None:
    limits = limits_of(Terms(tokens_per_minute=60))
    limits.meter(ACME, KEY).expect(10, 0.0)
    with pytest.raises(TokenRateExceededError) as caught:
        limits.meter(ACME, KEY).expect(1000, 0.0)
    assert caught.value.retry_after_ms == 10_000
    limits.meter(ACME, KEY).expect(1000, 10.0)


def test_requests_in_flight_are_bounded_for_tenant_and_key_alike() -> None:
    limits = limits_of(Terms(requests_in_flight_max=3), Terms(requests_in_flight_max=1))
    one, other = limits.meter(ACME, KEY), limits.meter(ACME, OTHER_KEY)
    one.enter(0.0)
    with pytest.raises(TooManyRequestsError) as caught:
        limits.meter(ACME, KEY).enter(0.0)
    assert caught.value.retry_after_ms == 250
    other.enter(0.0)
    limits.meter(ACME, OTHER_KEY).enter(0.0)
    with pytest.raises(TooManyRequestsError):
        limits.meter(ACME, OTHER_KEY).enter(0.0)
    one.leave()
    one.leave()  # harmless
    limits.meter(ACME, KEY).enter(0.0)


def test_one_that_never_entered_leaves_nothing() -> None:
    limits = limits_of(Terms(requests_in_flight_max=1))
    limits.meter(ACME, KEY).enter(0.0)
    refused = limits.meter(ACME, KEY)
    with pytest.raises(TooManyRequestsError):
        refused.enter(0.0)
    refused.leave()
    with pytest.raises(TooManyRequestsError):
        limits.meter(ACME, KEY).enter(0.0)


def test_gateways_share_and_each_lets_at_least_one_through() -> None:
    limits = limits_of(Terms(requests_per_minute=60, requests_in_flight_max=1), num_gateways=3)
    meter = limits.meter(ACME, KEY)
    assert requests_left(meter, 0.0) == [20]
    meter.enter(0.0)
    slow = limits_of(Terms(requests_per_minute=1), num_gateways=2)
    slow.meter(ACME, KEY).enter(0.0)
    with pytest.raises(RequestRateExceededError) as caught:
        slow.meter(ACME, KEY).enter(0.0)
    assert caught.value.retry_after_ms == 120_000


def test_new_terms_forget_neither_what_was_used_nor_what_runs() -> None:
    limits = limits_of(Terms(requests_per_minute=10, requests_in_flight_max=5))
    running = limits.meter(ACME, KEY)
    running.enter(0.0)
    limits.apply({ACME: Terms(requests_per_minute=20, requests_in_flight_max=1)}, {}, 1, 0.0)
    assert requests_left(limits.meter(ACME, KEY), 0.0) == [19]
    with pytest.raises(TooManyRequestsError):
        limits.meter(ACME, KEY).enter(0.0)
    limits.apply({}, {}, 1, 0.0)
    assert requests_left(limits.meter(ACME, KEY), 0.0) == []
    limits.apply({ACME: Terms(requests_in_flight_max=1)}, {}, 1, 0.0)
    with pytest.raises(TooManyRequestsError):
        limits.meter(ACME, KEY).enter(0.0)
    running.leave()
    limits.apply({}, {}, 1, 0.0)
    assert limits.meter(ACME, KEY) is UNBOUND


@given(
    per_minute=st.floats(1.0, 1e6),
    steps=st.lists(st.tuples(st.floats(0.0, 30.0), st.floats(0.5, 200.0)), max_size=50),
)
def test_no_more_goes_through_than_a_minutes_worth_and_what_was_filled(
    per_minute: float, steps: list[tuple[float, float]]
) -> None:
    bucket, now_s, taken = Bucket(per_minute, 0.0), 0.0, 0.0
    for pause_s, amount in steps:
        now_s += pause_s
        wait_s = bucket.wait_s(amount, now_s)
        if wait_s == 0.0:
            bucket.take(amount, now_s)
            taken += amount
        elif wait_s < 1e6:  # it is told the truth: then there is as much as was asked for, and not much earlier
            level = bucket.level(now_s)
            then = level + wait_s * per_minute / 60
            assert then == pytest.approx(min(amount, max(1.0, per_minute)), rel=1e-6)
    largest = max((amount for _, amount in steps), default=0.0)
    assert taken <= per_minute * (1 + now_s / 60) + largest + 1e-6


def test_a_request_that_is_sent_again_on_another_route_has_its_tokens_already() -> None:
    meter = limits_of(Terms(tokens_per_minute=60)).meter(ACME, KEY)
    meter.expect(60, 0.0)
    meter.expect(60, 0.0)
    assert tokens_left(meter, 0.0) == [0]


def test_a_wait_that_floats_make_of_nothing_is_none() -> None:
    limits = limits_of(Terms(requests_per_minute=600, tokens_per_minute=700))
    for number in range(600):
        limits.meter(ACME, KEY).enter(0.1 * number)
    for number in range(600):
        limits.meter(ACME, KEY).enter(60 + 0.1 * number)
    limits.meter(ACME, KEY).expect(700, 0.0)
    limits.meter(ACME, KEY).expect(100, 60 / 7)


def test_a_request_takes_as_long_however_many_tenants_have_terms(capsys: pytest.CaptureFixture[str]) -> None:
    terms = Terms(requests_per_minute=10_000_000, tokens_per_minute=1e12, requests_in_flight_max=100)

    def limits_beside(num_others: int) -> RateLimits:
        others = {TenantId(f"tenant-{number}"): terms for number in range(num_others)}
        limits = RateLimits(retry_after_ms=250)
        limits.apply({ACME: terms, **others}, {KEY: terms}, 1, 0.0)
        for other in others:
            limits.meter(other, OTHER_KEY).enter(1.0)
        return limits

    def request(limits: RateLimits) -> None:
        meter = limits.meter(ACME, KEY)
        meter.enter(1.0)
        meter.expect(100, 1.0)
        meter.use(150, 1.0)
        meter.leave()

    few, many = limits_beside(1), limits_beside(5000)
    # In turn, so that whatever the machine is busy with befalls both; the quickest is the least disturbed.
    taken_s = [[timeit.timeit(lambda each=each: request(each), number=100) for each in (few, many)] for _ in range(20)]
    few_s, many_s = (min(column) for column in zip(*taken_s, strict=True))
    with capsys.disabled():
        sys.stdout.write(f"\nrate limits: {many_s / 100 * 1e6:.1f} µs a request under a tenant's and a key's terms\n")
    assert many_s < 10 * few_s, "a scan of all tenants would show"


def test_a_prompts_length_is_estimated_by_its_characters() -> None:
    def request(**parts: object) -> Generate:
        fields = {"request_id": RequestId("r"), "engine_name": None, "cache_salt": "", "sampling": Sampling(), **parts}
        return Generate(**fields)  # type: ignore[arg-type]

    assert estimated_tokens(request(messages=(Message(role="user", content="x" * 40),))) == 10
    assert estimated_tokens(request(prompts=("x" * 8, (1, 2, 3)))) == 5
    assert estimated_tokens(request(prompts=("",))) == 1
