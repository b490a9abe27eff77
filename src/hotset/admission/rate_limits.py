"""How many requests and tokens a minute, and how many requests in flight, tenants and keys have at one gateway. Pure.

A rate is a bucket that holds what may be used in a minute and fills evenly, so a minute's worth may be used at once,
and what is left for the next minute is what was filled since. A request takes one from the bucket of requests before
its body is read, and its prompt's estimated length from the bucket of tokens once that is known; generated tokens are
taken as they come, and what was estimated is set right by what the engine counted. So a bucket of tokens may be
overdrawn by answers that run, which go on; nothing new begins until it is above nothing again.

Several gateways share a tenant's terms evenly: each has the whole divided by how many live, and lets at least one
request through. What one does not use another can't.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from hotset.core.errors import RequestRateExceededError, TokenRateExceededError, TooManyRequestsError
from hotset.core.ids import KeyId, TenantId
from hotset.core.terms import DEFAULT_TERMS, Terms

_MINUTE_S = 60.0
#: Less is nothing: what floats make of a wait that is over.
_WAIT_MIN_S = 1e-6

Holder = TypeVar("Holder", TenantId, KeyId)


class Bucket:
    """So much a minute. It keeps one moment, when it is full again: what is missing now is what fills until then.

    Source: the virtual scheduling form of the generic cell rate algorithm, ITU-T I.371.
    """

    __slots__ = ("_full_at_s", "_unit_s", "full")

    def __init__(self, per_minute: float, now_s: float) -> None:
        #: How long one takes to fill.
        self._unit_s = _MINUTE_S / per_minute
        #: What it holds at most.
        self.full = max(1.0, per_minute)
        self._full_at_s = now_s

    def change(self, per_minute: float, now_s: float) -> None:
        """Fill at another rate from now on; what was used stays used."""
        used = self.full - self.level(now_s)
        self._unit_s = _MINUTE_S / per_minute
        self.full = max(1.0, per_minute)
        self._full_at_s = now_s + used * self._unit_s

    def level(self, now_s: float) -> float:
        """Return what is left; below nothing where it is overdrawn."""
        return self.full - self.full_in_s(now_s) / self._unit_s

    def full_in_s(self, now_s: float) -> float:
        """Return how long until nothing is missing, 0 for now."""
        return max(0.0, self._full_at_s - now_s)

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return how long until so much may be taken, 0 for now; more than it ever holds waits until it is full."""
        wait_s = self._full_at_s - now_s
        if amount < self.full:
            wait_s -= (self.full - amount) * self._unit_s
        return wait_s if wait_s > _WAIT_MIN_S else 0.0

    def take(self, amount: float, now_s: float) -> None:
        """Take so much, whether it is there or not; less than nothing gives it back."""
        self._full_at_s = max(now_s, self._full_at_s) + amount * self._unit_s


class Allowance:
    """What one tenant or one key has at this gateway."""

    __slots__ = ("in_flight_max", "num_in_flight", "requests", "tokens")

    def __init__(self) -> None:
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.in_flight_max: int | None = None
        self.num_in_flight = 0

    def apply(self, terms: Terms, num_gateways: int, now_s: float) -> None:
        """Be under these terms from now on, as one of so many gateways."""
        self.requests = _changed(self.requests, terms.requests_per_minute, num_gateways, now_s)
        self.tokens = _changed(self.tokens, terms.tokens_per_minute, num_gateways, now_s)
        bound = terms.requests_in_flight_max
        self.in_flight_max = None if bound is None else max(1, bound // num_gateways)


class Limits:
    """What holds for one tenant's requests under one key: the tenant's allowance and the key's, where they have any."""

    __slots__ = ("allowances", "requests", "retry_after_ms", "tokens")

    def __init__(self, allowances: tuple[Allowance, ...], retry_after_ms: int) -> None:
        self.allowances = allowances
        self.requests = tuple(each.requests for each in allowances if each.requests is not None)
        self.tokens = tuple(each.tokens for each in allowances if each.tokens is not None)
        self.retry_after_ms = retry_after_ms


class Meter:
    """One request's hold on what its tenant and its key may use: `enter`, `expect`, `use` …, `leave`."""

    __slots__ = ("_charged", "_has_entered", "is_bound", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        #: Whether there is anything to count.
        self.is_bound = bool(limits.allowances)
        self._charged = 0
        self._has_entered = False

    def enter(self, now_s: float) -> None:
        """Count the request; `leave` must follow.

        Raises:
            RequestRateExceededError: it comes too early after others.
            TooManyRequestsError: too many others are in flight.
        """
        limits = self.limits
        for allowance in limits.allowances:
            in_flight_max = allowance.in_flight_max
            if in_flight_max is not None and allowance.num_in_flight >= in_flight_max:
                message = "You have as many requests in flight as you may."
                raise TooManyRequestsError(message, retry_after_ms=limits.retry_after_ms)
        if wait_s := _take(limits.requests, 1.0, now_s):
            raise RequestRateExceededError(retry_after_ms=_milliseconds(wait_s))
        for allowance in limits.allowances:
            allowance.num_in_flight += 1
        self._has_entered = True

    def expect(self, num_tokens: int, now_s: float) -> None:
        """Take a prompt's estimated tokens.

        Raises:
            TokenRateExceededError: they are not there yet.
        """
        if self._charged:  # it is sent again, on another route
            self.use(num_tokens, now_s)
            return
        if wait_s := _take(self.limits.tokens, num_tokens, now_s):
            raise TokenRateExceededError(retry_after_ms=_milliseconds(wait_s))
        self._charged = num_tokens

    def use(self, num_tokens: int, now_s: float) -> None:
        """Make what the request has taken so many tokens in all, up or down."""
        if num_tokens != self._charged:
            for bucket in self.limits.tokens:
                bucket.take(num_tokens - self._charged, now_s)
            self._charged = num_tokens

    def leave(self) -> None:
        """Count the request no more; harmless where it was not."""
        if self._has_entered:
            self._has_entered = False
            for allowance in self.limits.allowances:
                allowance.num_in_flight -= 1


#: Of a request whose tenant and key have no terms.
UNBOUND = Meter(Limits((), 1))


class RateLimits:
    """The allowances of all tenants and keys that have terms."""

    def __init__(self, *, retry_after_ms: int = 1000) -> None:
        """Start with none.

        Args:
            retry_after_ms: What a request refused for others in flight is told: nobody knows when they end.
        """
        self._retry_after_ms = retry_after_ms
        self._tenants: dict[TenantId, Allowance] = {}
        self._keys: dict[KeyId, Allowance] = {}
        #: Found for requests since terms were last applied.
        self._limits: dict[tuple[TenantId, KeyId], Limits] = {}

    def apply(
        self, tenants: Mapping[TenantId, Terms], keys: Mapping[KeyId, Terms], num_gateways: int, now_s: float
    ) -> None:
        """Hold these terms from now on, and forget whoever has none; what was used and what runs stays counted.

        Args:
            tenants: Terms of tenants.
            keys: Terms of keys, which hold beside their tenant's.
            num_gateways: How many share them, at least 1.
            now_s: Monotonic seconds.
        """
        _apply(self._tenants, tenants, num_gateways, now_s)
        _apply(self._keys, keys, num_gateways, now_s)
        self._limits.clear()

    def meter(self, tenant: TenantId, key: KeyId) -> Meter:
        """Return a new request's hold on what its tenant and its key may use."""
        limits = self._limits.get((tenant, key))
        if limits is None:
            found = (self._tenants.get(tenant), self._keys.get(key))
            allowances = tuple(allowance for allowance in found if allowance is not None)
            limits = Limits(allowances, self._retry_after_ms) if allowances else UNBOUND.limits
            self._limits[tenant, key] = limits
        return Meter(limits) if limits.allowances else UNBOUND


def _apply(allowances: dict[Holder, Allowance], terms: Mapping[Holder, Terms], num_gateways: int, now_s: float) -> None:
    for holder in [*allowances]:
        if holder not in terms and not allowances[holder].num_in_flight:
            del allowances[holder]
    for holder in {**allowances, **terms}:
        allowance = allowances.setdefault(holder, Allowance())
        allowance.apply(terms.get(holder, DEFAULT_TERMS), num_gateways, now_s)


def _changed(bucket: Bucket | None, per_minute: float | None, num_gateways: int, now_s: float) -> Bucket | None:
    if per_minute is None:
        return None
    share = per_minute / num_gateways
    if bucket is None:
        return Bucket(share, now_s)
    bucket.change(share, now_s)
    return bucket


def _take(buckets: Sequence[Bucket], amount: float, now_s: float) -> float:
    """Take so much from each, or from none where it is not there; return how long until it is, 0 where it was taken."""
    longest_s = 0.0
    for bucket in buckets:
        wait_s = bucket.wait_s(amount, now_s)
        if wait_s > longest_s:
            longest_s = wait_s
    if not longest_s:
        for bucket in buckets:
            bucket.take(amount, now_s)
    return longest_s


def _milliseconds(seconds: float) -> int:
    return max(1, math.ceil((seconds - _WAIT_MIN_S) * 1000))
