"""``hotset tenant``, ``key`` and ``grant``: who may call what."""

from typing import Annotated, Any

import typer

from hotset.cli.durations import parse_duration_s
from hotset.cli.output import moment, print_json, print_table, say, size, tell
from hotset.cli.session import Cut, Json, Yes, admin, confirm
from hotset.cli.terms_options import (
    BudgetMs,
    InFlight,
    RequestsPerMinute,
    TokensPerMinute,
    budget_ms,
    terms_change,
)

tenants = typer.Typer(no_args_is_help=True, help="Tenants: add, list, set, suspend, resume, remove.")
keys = typer.Typer(no_args_is_help=True, help="API keys of tenants: issue, list, set, revoke.")
grants = typer.Typer(no_args_is_help=True, help="Aliases: which model names a tenant has, and what they stand for.")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(tenants, name="tenant")
    root.add_typer(keys, name="key")
    root.add_typer(grants, name="grant")


@tenants.command("add")
def add_tenant(context: typer.Context, tenant: str, json: Json = False) -> None:
    """Add a tenant."""
    with admin(context) as client:
        answer = client.post("/tenants", {"tenant": tenant})
    _tell_tenant(answer, json)


@tenants.command("list")
def list_tenants(context: typer.Context, json: Json = False) -> None:
    """List the tenants."""
    with admin(context) as client:
        found = client.get("/tenants")["tenants"]
    if json:
        print_json(found)
        return
    rows = [
        (
            row["tenant"],
            row["state"],
            row["num_keys"],
            row["num_grants"],
            row["num_adapters"],
            row["reserve_slots"],
            "half" if row["limit_slots"] is None else row["limit_slots"],
            "default" if row["loads_per_minute"] is None else f"{row['loads_per_minute']:g}",
            size(row["reserve_bytes"]),
            "all" if row["limit_bytes"] is None else size(row["limit_bytes"]),
            moment(row["created_at_s"]),
        )
        for row in found
    ]
    columns = (
        "tenant",
        "state",
        "keys",
        "grants",
        "adapters",
        "reserve",
        "limit",
        "loads/min",
        "reserve bytes",
        "limit bytes",
        "added",
    )
    print_table(columns, rows, empty="There is no tenant yet: hotset tenant add NAME.")


@tenants.command("jobs")
def allow_jobs(
    context: typer.Context,
    tenant: str,
    allow: Annotated[bool, typer.Option("--allow/--forbid", help="Its requests may be answered later, or not.")],
    json: Json = False,
) -> None:
    """Allow or forbid a tenant jobs; those that were accepted stay."""
    with admin(context) as client:
        answer = client.post(f"/tenants/{tenant}/jobs", {"allowed": allow})
    tell(answer, f"Requests of {tenant} are {'' if answer['allows_jobs'] else 'not '}accepted as jobs.", as_json=json)


@tenants.command("suspend")
def suspend_tenant(context: typer.Context, tenant: str, cut: Cut = False, json: Json = False) -> None:
    """Refuse a tenant's requests until it is resumed."""
    with admin(context) as client:
        answer = client.post(f"/tenants/{tenant}/suspend", {"cut": cut})
    _tell_tenant(answer, json)


@tenants.command("resume")
def resume_tenant(context: typer.Context, tenant: str, json: Json = False) -> None:
    """Take a suspended tenant's requests again."""
    with admin(context) as client:
        answer = client.post(f"/tenants/{tenant}/resume")
    _tell_tenant(answer, json)


@tenants.command("remove")
def remove_tenant(context: typer.Context, tenant: str, cut: Cut = False, yes: Yes = False, json: Json = False) -> None:
    """Remove a tenant for ever: its keys, its grants, its name."""
    confirm(f"Remove tenant {tenant}, its keys and its grants?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/tenants/{tenant}", cut=str(cut).lower())
    _tell_tenant(answer, json)


def _tell_tenant(answer: dict[str, Any], as_json: bool) -> None:
    tell(answer, f"Tenant {answer['tenant']} is {answer['state']}.", as_json=as_json)


@keys.command("issue")
def issue_key(
    context: typer.Context,
    tenant: str,
    expires_in: Annotated[str | None, typer.Option(help="Such as 90d, 12h, 30m; never by default.")] = None,
    alias: Annotated[list[str] | None, typer.Option(help="The only alias it may name; may be repeated.")] = None,
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    requests_in_flight: InFlight = None,
    first_token_budget_ms: BudgetMs = None,
    json: Json = False,
) -> None:
    """Issue an API key; its token is shown this once."""
    body = {
        "tenant": tenant,
        "expires_in_s": None if expires_in is None else parse_duration_s(expires_in),
        "aliases": alias or None,
        "label": label,
        "terms": terms_change(requests_per_minute, tokens_per_minute, requests_in_flight, first_token_budget_ms),
    }
    with admin(context) as client:
        answer = client.post("/keys", body)
    if json:
        print_json(answer)
    else:
        say(f"Key {answer['key']['id']} of {tenant}, shown this once:")
        typer.echo(answer["token"])


@keys.command("list")
def list_keys(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    json: Json = False,
) -> None:
    """List the API keys, without their tokens."""
    with admin(context) as client:
        found = client.get("/keys", tenant=tenant)["keys"]
    if json:
        print_json(found)
        return
    rows = [
        (
            row["id"],
            row["tenant"],
            row["label"],
            ", ".join(row["aliases"] or ["all"]),
            moment(row["created_at_s"]),
            moment(row["expires_at_s"]),
            moment(row["revoked_at_s"]),
        )
        for row in found
    ]
    columns = ("key", "tenant", "label", "aliases", "issued", "expires", "revoked")
    print_table(columns, rows, empty="There is no key yet: hotset key issue TENANT.")


@keys.command("revoke")
def revoke_key(context: typer.Context, key: str, cut: Cut = False, yes: Yes = False, json: Json = False) -> None:
    """Revoke an API key for ever; within a second no new request is taken under it."""
    confirm(f"Revoke key {key}?", yes=yes)
    with admin(context) as client:
        answer = client.post(f"/keys/{key}/revoke", {"cut": cut})
    tell(answer, f"Key {key} of {answer['tenant']} is revoked.", as_json=json)


@grants.command("add")
def add_grant(
    context: typer.Context,
    tenant: str,
    adapter: Annotated[str | None, typer.Argument(help="owner/name.")] = None,
    base: Annotated[str | None, typer.Option(help="A bare base instead of an adapter.")] = None,
    alias: Annotated[str | None, typer.Option(help="The tenant's own name for it; by default the adapter's.")] = None,
    first_token_budget_ms: BudgetMs = None,
    json: Json = False,
) -> None:
    """Let a tenant call an adapter or a bare base, under an alias of its own."""
    body: dict[str, Any] = {"tenant": tenant, "alias": alias, "adapter": adapter, "base": base}
    body["first_token_budget_ms"] = budget_ms(first_token_budget_ms)
    with admin(context) as client:
        answer = client.post("/grants", body)
    tell(answer, f"{answer['tenant']} calls {answer['adapter'] or answer['base']} as {answer['alias']}.", as_json=json)


@grants.command("list")
def list_grants(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    json: Json = False,
) -> None:
    """List the aliases and what they stand for."""
    with admin(context) as client:
        found = client.get("/grants", tenant=tenant)["grants"]
    if json:
        print_json(found)
        return
    rows = [
        (row["tenant"], row["alias"], row["adapter"] or f"{row['base']} (base)", moment(row["created_at_s"]))
        for row in found
    ]
    columns = ("tenant", "alias", "stands for", "since")
    print_table(columns, rows, empty="There is no grant yet: hotset grant add TENANT owner/name.")


@grants.command("remove")
def remove_grant(
    context: typer.Context, tenant: str, alias: str, cut: Cut = False, yes: Yes = False, json: Json = False
) -> None:
    """Take an alias from a tenant."""
    confirm(f"Take alias {alias} from {tenant}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/grants/{tenant}/{alias}", cut=str(cut).lower())
    tell(answer, f"{tenant} has no alias {alias} any more.", as_json=json)
