"""What is left, as clients of the OpenAI API read it."""

import pytest

from hotset.admission.rate_limits import UNBOUND, RateLimits
from hotset.core.ids import KeyId, TenantId
from hotset.core.terms import Terms
from hotset.gateway.rate_headers import duration, rate_headers

ACME, KEY = TenantId("acme"), KeyId("key-1")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, b"0ms"),
        (0.0201, b"21ms"),
        (0.9999, b"1s"),
        (1.5, b"1.5s"),
        (59.25, b"59.25s"),
        (360.0, b"6m0s"),
        (3600.0, b"1h0m0s"),
        (7262.007, b"2h1m2.007s"),
    ],
)
def test_a_reset_is_a_duration(seconds: float, text: bytes) -> None:
    assert duration(seconds) == text


def test_each_limit_has_three_headers_and_what_has_none_has_no_header() -> None:
    limits = RateLimits()
    limits.apply({ACME: Terms(requests_per_minute=60)}, {KEY: Terms(tokens_per_minute=1000)}, 1, 0.0)
    meter = limits.meter(ACME, KEY)
    meter.enter(0.0)
    meter.expect(3, 0.0)
    assert rate_headers(meter, 0.0) == [
        (b"x-ratelimit-limit-requests", b"60"),
        (b"x-ratelimit-remaining-requests", b"59"),
        (b"x-ratelimit-reset-requests", b"1s"),
        (b"x-ratelimit-limit-tokens", b"1000"),
        (b"x-ratelimit-remaining-tokens", b"997"),
        (b"x-ratelimit-reset-tokens", b"180ms"),
    ]
    meter.use(2000, 0.0)
    assert (b"x-ratelimit-remaining-tokens", b"0") in rate_headers(meter, 0.0)
    assert rate_headers(UNBOUND, 0.0) == []
