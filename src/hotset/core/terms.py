"""What a tenant, or one key of it, may ask of the gateways, and how long its requests wait by default.

Here is what terms may say at all. What they come to at one gateway is `admission.rate_limits`'.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from hotset.core.errors import InvalidRequestError

#: The longest first-token budget that may be asked for or set, in milliseconds.
BUDGET_MS_MAX = 600_000
#: Part of the terms → its least and greatest number.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "requests_per_minute": (0.1, 10_000_000.0),
    "tokens_per_minute": (1.0, 1e12),
    "requests_in_flight_max": (1, 65_536),
    "first_token_budget_ms": (0, BUDGET_MS_MAX),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What one tenant, or one key, is served under."""

    #: Generation requests that it may begin in a minute, over all gateways; null: as many as it likes.
    requests_per_minute: float | None = None
    #: Tokens of prompts and answers together that it may use in a minute, over all gateways; null: as many as it likes.
    tokens_per_minute: float | None = None
    #: Generation requests that it may have in flight, over all gateways; null: the gateway's own bound alone.
    requests_in_flight_max: int | None = None
    #: First-token budget of a request that names none, in milliseconds; 0 sets none, null leaves it to whom is asked
    #: next: the key, then the alias, the tenant, the gateway.
    first_token_budget_ms: int | None = None


DEFAULT_TERMS = Terms()


class TermsChange(TypedDict, total=False):
    """The parts of terms that are to change: one that is left out stays, None is the default."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    requests_in_flight_max: int | None
    first_token_budget_ms: int | None


def change_terms(terms: Terms, change: TermsChange) -> Terms:
    """Return the terms with the change made.

    Raises:
        InvalidRequestError: a number is out of bounds; `param` is the part at fault.
    """
    changed = replace(terms, **change)
    for name in BOUNDS:
        check_term(name, getattr(changed, name))
    return changed


def check_term(name: str, number: float | None) -> None:
    """Pass if this may be that part of terms.

    Raises:
        InvalidRequestError: it is out of bounds; `param` is the part.
    """
    least, greatest = BOUNDS[name]
    if number is not None and not least <= number <= greatest:
        raise InvalidRequestError(f"{name} is from {least:,g} to {greatest:,g}.", param=name)
