"""``hotset job``: the requests that are answered later, without a word of what they ask or answer."""

from typing import Annotated

import typer

from hotset.cli.output import moment, print_json, print_pairs, print_table, size, tell
from hotset.cli.session import Json, Yes, admin, confirm

jobs = typer.Typer(no_args_is_help=True, help="Requests that are answered later: list, show, cancel.")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(jobs, name="job")


@jobs.command("list")
def list_jobs(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    state: Annotated[
        str | None, typer.Option(help="In this state only: queued, running, completed, failed, cancelled, expired.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest.")] = 100,
    json: Json = False,
) -> None:
    """List the jobs, newest first."""
    with admin(context) as client:
        found = client.get("/jobs", tenant=tenant, state=state, limit=limit)["jobs"]
    if json:
        print_json(found)
        return
    rows = [
        (
            row["id"],
            row["tenant"],
            row["model"],
            row["state"],
            row["code"],
            row["attempts"],
            size(row["bytes"]),
            moment(row["created_at_s"]),
            moment(row["ended_at_s"]),
        )
        for row in found
    ]
    columns = ("job", "tenant", "model", "state", "error", "tries", "size", "accepted", "ended")
    print_table(columns, rows, empty="There is no job to list.")


@jobs.command("show")
def show_job(context: typer.Context, job: str, json: Json = False) -> None:
    """Show where a job stands."""
    with admin(context) as client:
        row = client.get(f"/jobs/{job}")
    if json:
        print_json(row)
        return
    times = ("created_at_s", "not_before_s", "lease_until_s", "ended_at_s", "expires_at_s")
    print_pairs((name.removesuffix("_s"), moment(value) if name in times else value) for name, value in row.items())


@jobs.command("cancel")
def cancel_job(context: typer.Context, job: str, yes: Yes = False, json: Json = False) -> None:
    """End a job for ever; what runs of it is ended within seconds."""
    confirm(f"End job {job}?", yes=yes)
    with admin(context) as client:
        row = client.post(f"/jobs/{job}/cancel", {})
    tell(row, f"Job {job} of {row['tenant']} is {row['state']}.", as_json=json)
