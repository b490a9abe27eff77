"""The ``x-ratelimit-*`` headers by which clients of the OpenAI API see what is left of their requests and tokens.

Source: OpenAI API guide on rate limits: limit and remaining are whole numbers, reset is a duration such as ``6m0s``,
``1.5s`` or ``20ms`` until the limit is whole again.
"""

from collections.abc import Sequence

from hotset.admission.rate_limits import Bucket, Meter
from hotset.gateway.outlet import HeaderList

_REQUESTS = (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests")
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
    bucket = buckets[0] if len(buckets) == 1 else min(buckets, key=lambda each: each.level(now_s))
    level = bucket.level(now_s)
    headers.append((names[0], b"%d" % bucket.full))
    headers.append((names[1], b"%d" % level if level > 0 else b"0"))
    headers.append((names[2], duration(bucket.wait_s(bucket.full, now_s))))


def duration(seconds: float) -> bytes:
    """Return a duration as such clients read it, rounded up to whole milliseconds."""
    ms = -int(-seconds * 1000 // 1)
    if ms < 1000:
        return b"%dms" % ms
    minutes, ms = divmod(ms, 60_000)
    text = b"%d" % (ms // 1000)
    if ms % 1000:
        text += (b".%03d" % (ms % 1000)).rstrip(b"0")
    if minutes < 60:
        return b"%dm%ss" % (minutes, text) if minutes else text + b"s"
    return b"%dh%dm%ss" % (*divmod(minutes, 60), text)
