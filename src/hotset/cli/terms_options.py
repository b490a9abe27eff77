"""The options by which commands take terms: a number each, or ``none`` for the default."""

from typing import Annotated

import typer

from hotset.core.errors import InvalidRequestError
from hotset.core.terms import DEFAULT_TERMS, TermsChange, change_terms

_NONE = "none"

RequestsPerMinute = Annotated[str | None, typer.Option(help="Requests that it may begin in a minute, or none.")]
TokensPerMinute = Annotated[str | None, typer.Option(help="Tokens in and out that it may use in a minute, or none.")]
InFlight = Annotated[str | None, typer.Option(help="Requests that it may have in flight, or none.")]
BudgetMs = Annotated[
    str | None,
    typer.Option(help="First-token budget of requests that name none, in milliseconds; 0 sets none; none: no default."),
]


def terms_change(
    requests_per_minute: str | None,
    tokens_per_minute: str | None,
    requests_in_flight: str | None,
    first_token_budget_ms: str | None,
) -> TermsChange:
    """Return what options say; one that was not given stays out.

    Raises:
        InvalidRequestError: one is neither a number in its bounds nor ``none``.
    """
    change = TermsChange()
    if requests_per_minute is not None:
        change["requests_per_minute"] = _number("requests-per-minute", requests_per_minute)
    if tokens_per_minute is not None:
        change["tokens_per_minute"] = _number("tokens-per-minute", tokens_per_minute)
    if requests_in_flight is not None:
        change["requests_in_flight_max"] = _whole("requests-in-flight", requests_in_flight)
    if first_token_budget_ms is not None:
        change["first_token_budget_ms"] = _whole("first-token-budget-ms", first_token_budget_ms)
    change_terms(DEFAULT_TERMS, change)  # before it is sent, as JSON has no NaN to refuse
    return change


def budget_ms(text: str | None) -> int | None:
    """Return the default first-token budget that an option names.

    Raises:
        InvalidRequestError: it is neither a number in its bounds nor ``none``.
    """
    return terms_change(None, None, None, text).get("first_token_budget_ms")


def _number(name: str, text: str) -> float | None:
    if text == _NONE:
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidRequestError(f"--{name} is a number or {_NONE}, not {text!r}.", param=name) from None


def _whole(name: str, text: str) -> int | None:
    number = _number(name, text)
    if number is None:
        return None
    if not number.is_integer():
        raise InvalidRequestError(f"--{name} is a whole number or {_NONE}, not {text!r}.", param=name)
    return int(number)
