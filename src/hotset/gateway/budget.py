"""The first-token budget that a request asks for: how long its caller will wait for the first token.

It comes from ``Hotset-First-Token-Budget-Ms``, else, where nothing is streamed, from ``Prefer: wait=SECONDS``, else it
is the default of the key, the alias, the tenant or the plane. The header is a demand, so one that can't be read is an
error; a preference is a wish, so one that can't be read or is out of range is passed over. The budget runs from the
whole body; the agent refuses what can't meet it by the estimate of its own, and so does the gateway by the same
estimate where the way to the agent took what was left.

Source: RFC 7240 sections 2 (the first instance of a preference counts), 3, 4.1 and 4.3.
"""

import math
import re

import msgspec

from hotset.core.errors import AdapterColdError, AdmissionError, InvalidRequestError, TooManyRequestsError
from hotset.core.ports import Waiting
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.terms import BUDGET_MS_MAX, DEFAULT_TERMS
from hotset.gateway.authenticate import Caller
from hotset.gateway.request_head import RequestHead
from hotset.gateway.settings import GatewaySettings
from hotset.routing.resolve import Resolved

_HEADER = "Hotset-First-Token-Budget-Ms"
#: One preference with its parameters: commas divide, except within quotes. What is quoted and never ends is one, too.
_PREFERENCE = re.compile(rb'(?:[^",]+|"(?:[^"\\]+|\\.)*"?)+', re.DOTALL)
#: RFC 7240: an empty value is none.
_NO_VALUE = (b"", b'""')
_BLANKS = b" \t"
_DIGITS_MAX = 15
#: What a message may take without being counted: the agent's word is then as good as ours.
_ON_THE_WAY_S = 0.05


class Budget(msgspec.Struct, frozen=True):
    """The budget of one request."""

    #: Milliseconds from the whole body to the first token; None sets none.
    ms: int | None = None
    #: The value of ``Preference-Applied``; empty where no preference counted.
    applied: bytes = b""
    #: Whether the client would rather have a late answer later than on this connection.
    prefers_async: bool = False

    def left_ms(self, body_at_s: float, now_s: float) -> int | None:
        """Return the whole milliseconds that are left of it, at least 1; None where there is none.

        Args:
            body_at_s: When the body was whole, in monotonic seconds.
            now_s: The moment to reckon from, likewise.
        """
        if self.ms is None:
            return None
        return max(1, int(self.ms - (now_s - body_at_s) * 1e3))


NO_BUDGET = Budget()


def first_token_budget(head: RequestHead, *, is_stream: bool, default_ms: int) -> Budget:
    """Return what the request's headers ask for.

    Args:
        head: Its headers.
        is_stream: Whether its answer is streamed; ``wait`` is for those that are not.
        default_ms: The budget of a request that asks for none, in milliseconds; 0 sets none.

    Raises:
        InvalidRequestError: the header of its own is not one whole number in range, or a stream is to be answered
            asynchronously.
    """
    preferences = _preferences(head.prefer) if head.prefer else {}
    prefers_async = preferences.get(b"respond-async") in _NO_VALUE
    if is_stream and prefers_async:
        raise InvalidRequestError("A stream is never answered asynchronously: ask for one of the two.", param="prefer")
    if head.first_token_budget is not None:
        return Budget(_demanded_ms(head.first_token_budget), prefers_async=prefers_async)
    wait_ms = None if is_stream else _in_range_ms(preferences.get(b"wait", b""), unit_ms=1000)
    if wait_ms is not None:
        return Budget(wait_ms, b"wait=%d" % (wait_ms // 1000), prefers_async)
    return Budget(default_ms or None, prefers_async=prefers_async)


def default_budget_ms(snapshot: RoutingSnapshot, caller: Caller, bound: Resolved, settings: GatewaySettings) -> int:
    """Return the budget of a request that names none, in milliseconds; 0 sets none."""
    tenant = snapshot.terms.get(caller.key.tenant, DEFAULT_TERMS)
    for default_ms in (
        caller.key.terms.first_token_budget_ms,
        bound.first_token_budget_ms,
        tenant.first_token_budget_ms,
    ):
        if default_ms is not None:
            return default_ms
    return settings.first_token_budget_ms


def refusal_of(waiting: Waiting, left_s: float) -> AdmissionError | None:
    """Return what a request that begins to wait is refused with at once; None where it may well meet its budget.

    The agent held the same expectation against what it took for the budget left; the way there and back is added here.

    Args:
        waiting: What the agent says.
        left_s: What is left of the budget now, in seconds; infinite where there is none.
    """
    expected_s = waiting.expected_s
    if expected_s is None or expected_s <= left_s + _ON_THE_WAY_S:
        return None
    if waiting.lane == "hot":
        return TooManyRequestsError(retry_after_ms=math.ceil((expected_s - left_s) * 1000))
    return AdapterColdError(retry_after_ms=math.ceil(expected_s * 1000))


def _demanded_ms(value: bytes) -> int:
    asked_ms = _in_range_ms(value.strip(_BLANKS), unit_ms=1)
    if asked_ms is None:
        raise InvalidRequestError(
            f"The header {_HEADER} is not one whole number from 1 to {BUDGET_MS_MAX}.", param=_HEADER.lower()
        )
    return asked_ms


def _in_range_ms(value: bytes, *, unit_ms: int) -> int | None:
    if not value.isdigit() or len(value) > _DIGITS_MAX:
        return None
    ms = int(value) * unit_ms
    return ms if 1 <= ms <= BUDGET_MS_MAX else None


def _preferences(fields: list[bytes]) -> dict[bytes, bytes]:
    """Name in lower case → value. Parameters are not looked at: no preference that is served here has any."""
    found = dict[bytes, bytes]()
    for preference in _PREFERENCE.findall(b",".join(fields)):
        name, _, value = preference.partition(b";")[0].partition(b"=")
        found.setdefault(name.strip(_BLANKS).lower(), value.strip(_BLANKS))
    return found
