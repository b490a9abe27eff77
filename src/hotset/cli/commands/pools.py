"""``hotset pool``: which workers serve which tenants, and when new versions may come to them."""

from typing import Annotated

import typer

from hotset.cli.output import print_json, print_table, tell, warn
from hotset.cli.session import Json, Yes, admin, confirm
from hotset.core.errors import InvalidRequestError

pools = typer.Typer(no_args_is_help=True, help="Pools: add, list, assign, set, remove.")

_COLUMNS = ("pool", "base", "kind", "rank class", "release schedule", "tenants", "workers")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(pools, name="pool")


@pools.command("add")
def add_pool(
    context: typer.Context,
    pool: str,
    base: Annotated[str, typer.Option(help="The base that its workers serve.")],
    dedicated: Annotated[bool, typer.Option("--dedicated", help="For one tenant alone.")] = False,
    rank_class: Annotated[int | None, typer.Option(help="The highest rank that its workers must take.")] = None,
    release_schedule: Annotated[
        str | None, typer.Option(help="When new versions may come, UTC: 'mon-thu 09:00-16:00'; else at any time.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a pool; workers and tenants come to it by `hotset pool assign`."""
    kind = "dedicated" if dedicated else "shared"
    body = {"pool": pool, "base": base, "kind": kind, "rank_class": rank_class, "release_schedule": release_schedule}
    with admin(context) as client:
        answer = client.post("/pools", body)
    tell(answer, f"Added {answer['kind']} pool {pool} of {answer['base']}.", as_json=json)


@pools.command("list")
def list_pools(context: typer.Context, json: Json = False) -> None:
    """List the pools, who is in them, and the reserves that would not survive the loss of a worker."""
    with admin(context) as client:
        found = client.get("/pools")["pools"]
    if json:
        print_json(found)
        return
    rows = [
        (
            row["pool"],
            row["base"],
            row["kind"],
            row["rank_class"],
            row["release_schedule"],
            "all others" if row["tenants"] is None else ", ".join(row["tenants"]),
            ", ".join(row["workers"]),
        )
        for row in found
    ]
    print_table(_COLUMNS, rows, empty="There is no base yet, and so no pool: hotset base add FOLDER.")
    for warning in (warning for row in found for warning in row["warnings"]):
        warn(f"Warning: {warning}")


@pools.command("assign")
def assign_to_pool(
    context: typer.Context,
    pool: str,
    tenant: Annotated[
        str | None, typer.Option(help="Serve this tenant by the pool's workers, and by no others.")
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Have this worker serve the pool, and no other.")] = None,
    base: Annotated[str | None, typer.Option(help="Which base's, with the pool 'default'.")] = None,
    json: Json = False,
) -> None:
    """Put a tenant or a worker into a pool, out of any other; the pool 'default' is that of all others."""
    if (tenant is None) == (worker is None):
        raise InvalidRequestError("Name a --tenant or a --worker, one of the two.")
    with admin(context) as client:
        answer = client.post(f"/pools/{pool}/assign", {"tenant": tenant, "worker": worker, "base": base})["pools"]
    tell(answer, f"{tenant or worker} is in pool {pool}.", as_json=json)
    for row in answer:
        if tenant and not json and row["pool"] == pool and not row["workers"]:
            warn(f"Warning: pool {pool} has no worker: in a fleet, nothing serves {tenant} until one is assigned.")


@pools.command("set")
def set_pool(
    context: typer.Context,
    pool: str,
    release_schedule: Annotated[str | None, typer.Option(help="When new versions may come, UTC.")] = None,
    no_release_schedule: Annotated[
        bool, typer.Option("--no-release-schedule", help="New versions may come at any time.")
    ] = False,
    json: Json = False,
) -> None:
    """Set when new versions may come to a pool."""
    if (release_schedule is None) != no_release_schedule:
        raise InvalidRequestError("Say --release-schedule or --no-release-schedule, one of the two.")
    with admin(context) as client:
        body = {"release_schedule": release_schedule}
        answer = client.call("POST", f"/pools/{pool}/schedule", body=body)
    tell(answer, f"New versions may come to pool {pool} {release_schedule or 'at any time'}.", as_json=json)


@pools.command("remove")
def remove_pool(context: typer.Context, pool: str, yes: Yes = False, json: Json = False) -> None:
    """Remove a pool that is empty."""
    confirm(f"Remove pool {pool}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/pools/{pool}")
    tell(answer, f"There is no pool {pool} any more.", as_json=json)
