"""The ``x-ratelimit-*`` headers by which clients of the OpenAI API see what is left of their requests and tokens.

Source: OpenAI API guide on rate limits: limit and remaining are whole numbers, reset is a duration such as ``6m0s``,
``1.5s`` or ``20ms`` until the limit is whole again.
"""

import math
from collections.abc import Sequence

from hotset.admission.rate_limits import Bucket, Meter
from hotset.gateway.outlet import HeaderList

_REQUESTS = (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests")
#: Of tokens or seconds: what floats make of a whole number.
_NOTHING = 1e-6
_TOKENS = (b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens")


def rate_headers(meter: Meter, now_s: float) -> HeaderList:
    """Return the headers of a request's tenant and key, of the two the tighter; none for what has no limit.

    Args:
        meter: The request's.
        now_s: Monotonic seconds.
    """
    headers: HeaderList = []
    if meter.is_bound:
        _add(headers, _REQUESTS, meter.limits.requests, now_s)
        _add(headers, _TOKENS, meter.limits.tokens, now_s)
    return headers


def _add(headers: HeaderList, names: tuple[bytes, bytes, bytes], buckets: Sequence[Bucket], now_s: float) -> None:
    if not buckets:
        return
    bucket, level = buckets[0], buckets[0].level(now_s)
    for other in buckets[1:]:
        if (others := other.level(now_s)) < level:
            bucket, level = other, others
    headers.append((names[0], b"%d" % bucket.full))
    headers.append((names[1], b"%d" % (level + _NOTHING) if level > 0 else b"0"))
    headers.append((names[2], duration(bucket.full_in_s(now_s))))


def duration(seconds: float) -> bytes:
    """Return a duration as such clients read it, rounded up to whole milliseconds."""
    ms = math.ceil((seconds - _NOTHING) * 1000)
    if ms < 1000:
        return b"%dms" % ms
    minutes, ms = divmod(ms, 60_000)
    text = b"%d" % (ms // 1000)
    if ms % 1000:
        text += (b".%03d" % (ms % 1000)).rstrip(b"0")
    if minutes < 60:
        return b"%dm%ss" % (minutes, text) if minutes else text + b"s"
    return b"%dh%dm%ss" % (*divmod(minutes, 60), text)
