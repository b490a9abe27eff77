"""``hotset tenant set``, ``key set`` and ``grant set``: what tenants, keys and aliases may have and ask for."""

from typing import Annotated, Any, cast

import typer

from hotset.cli.commands.tenancy import grants, keys, tenants
from hotset.cli.output import print_json, say, size
from hotset.cli.session import Json, admin
from hotset.cli.sizes import parse_size
from hotset.cli.terms_options import (
    BudgetMs,
    InFlight,
    RequestsPerMinute,
    TokensPerMinute,
    budget_ms,
    terms_change,
)
from hotset.core.errors import InvalidRequestError
from hotset.core.quotas import DEFAULT_QUOTA, QuotaChange, change_quota

#: Options that ``--no-…`` takes back, by part of a quota.
_OPTIONS = {"limit_slots": "limit", "loads_per_minute": "loads-per-minute", "limit_bytes": "limit-bytes"}
_QUOTA_OPTIONS = "--reserve, --limit, --loads-per-minute, --reserve-bytes, --limit-bytes"
_TERMS_OPTIONS = ", --requests-per-minute, --tokens-per-minute, --requests-in-flight or --first-token-budget-ms"


def register(_root: typer.Typer) -> None:
    """Add the commands to those of tenants, keys and grants."""
    tenants.command("set")(set_tenant)
    keys.command("set")(set_key)
    grants.command("set")(set_grant)


def set_tenant(
    context: typer.Context,
    tenant: str,
    reserve: Annotated[int | None, typer.Option(help="Slots that it is always owed on each of its workers.")] = None,
    limit: Annotated[int | None, typer.Option(help="Slots that it may hold there at most.")] = None,
    no_limit: Annotated[
        bool, typer.Option("--no-limit", help="No limit of its own: half of the slots, or its reserve.")
    ] = False,
    loads_per_minute: Annotated[float | None, typer.Option(help="Adapter loads that it may cause there.")] = None,
    no_loads_per_minute: Annotated[
        bool, typer.Option("--no-loads-per-minute", help="No such number of its own: the worker's default.")
    ] = False,
    reserve_bytes: Annotated[
        str | None, typer.Option(help="Bytes that it is always owed in each worker's local store, such as 512MiB.")
    ] = None,
    limit_bytes: Annotated[str | None, typer.Option(help="Bytes that it may hold there at most.")] = None,
    no_limit_bytes: Annotated[
        bool, typer.Option("--no-limit-bytes", help="No such limit of its own: all of the store.")
    ] = False,
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    requests_in_flight: InFlight = None,
    first_token_budget_ms: BudgetMs = None,
    json: Json = False,
) -> None:
    """Set a tenant's quota and terms; only what is given changes."""
    quota = _quota_change(
        reserve_slots=(reserve, False),
        limit_slots=(limit, no_limit),
        loads_per_minute=(loads_per_minute, no_loads_per_minute),
        reserve_bytes=(_bytes(reserve_bytes), False),
        limit_bytes=(_bytes(limit_bytes), no_limit_bytes),
    )
    change_quota(DEFAULT_QUOTA, quota)  # before it is sent, as JSON has no NaN to refuse
    terms = terms_change(requests_per_minute, tokens_per_minute, requests_in_flight, first_token_budget_ms)
    if not quota and not terms:
        raise InvalidRequestError(f"Say what is to change: {_QUOTA_OPTIONS}{_TERMS_OPTIONS}.")
    answer: dict[str, Any] = {}
    with admin(context) as client:
        if quota:
            answer = client.call("POST", f"/tenants/{tenant}/quota", body=dict(quota))
        if terms:
            answer = client.call("POST", f"/tenants/{tenant}/terms", body=dict(terms))
    if json:
        print_json(answer)
        return
    if quota:
        say(_quota_sentence(answer))
    if terms:
        say(f"Tenant {tenant}: {_terms_sentence(answer['terms'])}.")


def set_key(
    context: typer.Context,
    key: str,
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    requests_in_flight: InFlight = None,
    first_token_budget_ms: BudgetMs = None,
    json: Json = False,
) -> None:
    """Set a key's terms, which hold beside its tenant's; only what is given changes."""
    terms = terms_change(requests_per_minute, tokens_per_minute, requests_in_flight, first_token_budget_ms)
    if not terms:
        raise InvalidRequestError(f"Say what is to change: {_TERMS_OPTIONS[2:]}.")
    with admin(context) as client:
        answer = client.call("POST", f"/keys/{key}/terms", body=dict(terms))
    if json:
        print_json(answer)
    else:
        say(f"Key {key} of {answer['tenant']}: {_terms_sentence(answer['terms'])}.")


def set_grant(
    context: typer.Context, tenant: str, alias: str, first_token_budget_ms: BudgetMs = None, json: Json = False
) -> None:
    """Set an alias's default first-token budget."""
    if first_token_budget_ms is None:
        raise InvalidRequestError("Say what is to change: --first-token-budget-ms.")
    body = {"first_token_budget_ms": budget_ms(first_token_budget_ms)}
    with admin(context) as client:
        answer = client.call("POST", f"/grants/{tenant}/{alias}", body=body)
    if json:
        print_json(answer)
    else:
        say(f"{tenant}:{alias}: {_budget_words(answer['first_token_budget_ms'])}.")


def _quota_change(**parts: tuple[float | None, bool]) -> QuotaChange:
    """Return the parts that were given, each as ``--name N`` or as ``--no-name``, which stands for the default."""
    for name, (number, is_default) in parts.items():
        if number is not None and is_default:
            option = _OPTIONS[name]
            raise InvalidRequestError(f"Either --{option} or --no-{option}, not both.", param=option)
    given = {name: number for name, (number, is_default) in parts.items() if number is not None or is_default}
    return cast("QuotaChange", given)


def _bytes(text: str | None) -> int | None:
    return None if text is None else parse_size(text)


def _quota_sentence(answer: dict[str, Any]) -> str:
    limit, loads = answer["limit_slots"], answer["loads_per_minute"]
    most = "half" if limit is None else limit
    rate = "the worker's default" if loads is None else f"{loads:g}"
    share = f"reserve {answer['reserve_slots']} and limit {most} of each worker's slots"
    all_bytes = "all" if answer["limit_bytes"] is None else size(answer["limit_bytes"])
    store = f"reserve {size(answer['reserve_bytes'])} and limit {all_bytes} of its local store"
    return f"Tenant {answer['tenant']} has {share}, {store}; loads a minute: {rate}."


def _terms_sentence(terms: dict[str, Any]) -> str:
    parts = [
        f"{'no limit of' if terms[name] is None else format(terms[name], ',g')} {words}"
        for name, words in (
            ("requests_per_minute", "requests a minute"),
            ("tokens_per_minute", "tokens a minute"),
            ("requests_in_flight_max", "requests in flight"),
        )
    ]
    return f"{', '.join(parts)}; {_budget_words(terms['first_token_budget_ms'])}"


def _budget_words(budget: int | None) -> str:
    if budget is None:
        return "no first-token budget of its own"
    return f"first-token budget {budget} ms by default" if budget else "no first-token budget by default"
