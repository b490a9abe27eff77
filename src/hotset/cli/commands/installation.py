"""``hotset store``, ``audit``, ``config``, ``doctor``: the installation as a whole."""

from collections.abc import Mapping
from json import dumps
from typing import Annotated, Any

import typer
import yaml

from hotset.cli.config import shown
from hotset.cli.doctor import examine
from hotset.cli.output import moment, print_json, print_table, progress, say, size, tell
from hotset.cli.session import CLOCK, ConfigFile, Json, Yes, admin, confirm, settings_of

store = typer.Typer(no_args_is_help=True, help="The trusted store: collect garbage, verify.")
audit = typer.Typer(no_args_is_help=True, help="The audit log: list, verify.")
config = typer.Typer(no_args_is_help=True, help="The configuration: check, show.")
_UNSOUND_STATUS = 1


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(store, name="store")
    root.add_typer(audit, name="audit")
    root.add_typer(config, name="config")
    root.command("doctor")(doctor)


@store.command("gc")
def collect_garbage(context: typer.Context, yes: Yes = False, json: Json = False) -> None:
    """Free what no version names: blobs, and uploads left behind for a day."""
    confirm("Erase every blob that no version names?", yes=yes)
    with admin(context) as client:
        freed = client.post("/store/gc", {})
    freed_words = f"Freed {freed['num_blobs']} blobs ({size(freed['bytes'])}) and {freed['num_staging']} uploads."
    tell(freed, freed_words, as_json=json)


@store.command("verify")
def verify_store(context: typer.Context, json: Json = False) -> None:
    """Hash every stored blob again: status 0 if all are whole."""
    with admin(context) as client, progress("store") as show:
        found = client.long("/store/verify", {}, show)
    if json:
        print_json(found)
    else:
        say(f"{found['num_blobs']} blobs ({size(found['bytes'])}) hashed.")
        for kind in ("damaged", "missing"):
            for digest in found[kind]:
                say(f"{kind}: {digest}")
    if found["damaged"] or found["missing"]:
        raise typer.Exit(_UNSOUND_STATUS)


@audit.command("list")
def list_audit(
    context: typer.Context,
    after: Annotated[int, typer.Option(help="Entries numbered above this.")] = 0,
    limit: Annotated[int, typer.Option(help="At most this many, up to 1000.")] = 100,
    json: Json = False,
) -> None:
    """List what operators did, oldest first."""
    with admin(context) as client:
        entries = client.get("/audit", after=after, limit=limit)["entries"]
    if json:
        print_json(entries)
        return
    rows = [
        (row["number"], moment(row["at_s"]), row["actor"], row["action"], row["subject"], _details(row["details"]))
        for row in entries
    ]
    print_table(("number", "when", "who", "did", "to", "details"), rows, empty="There is no entry.")
    if len(entries) == limit:
        say(f"There may be more: --after {entries[-1]['number']}.")


def _details(details: Mapping[str, Any]) -> str:
    """Return what an entry says beside who did what to what; digests, and what is unset or off, are left out."""
    return ", ".join(
        f"{name}: {value if isinstance(value, str | int | float) else dumps(value)}"
        for name, value in details.items()
        if name != "digest" and value is not None and value is not False and value not in ("", [], {})
    )


@audit.command("verify")
def verify_audit(context: typer.Context, json: Json = False) -> None:
    """Walk the audit log's chain of hashes: status 0 if it is whole."""
    with admin(context) as client:
        found = client.get("/audit/verify")
    if json:
        print_json(found)
    elif found["is_intact"]:
        say(f"All {found['num_entries']} entries are intact.")
    else:
        say(f"The chain is broken at entry {found['first_broken']}.")
    if not found["is_intact"]:
        raise typer.Exit(_UNSOUND_STATUS)


@config.command("check")
def check_config(context: typer.Context, file: ConfigFile = None, json: Json = False) -> None:
    """Say what is wrong with the configuration, all at once: status 0 if nothing is."""
    settings = settings_of(context, file)
    if json:
        print_json({"is_valid": True})
    else:
        say(f"{settings.file or 'The defaults and the environment'}: valid.")


@config.command("show")
def show_config(context: typer.Context, file: ConfigFile = None, json: Json = False) -> None:
    """Print the configuration in force, secrets left out."""
    values = shown(settings_of(context, file))
    if json:
        print_json(values)
    else:
        typer.echo(yaml.safe_dump(values, sort_keys=False), nl=False)


def doctor(context: typer.Context, json: Json = False) -> None:
    """Look over the installation and this machine: status 0 if nothing is wrong."""
    findings = examine(settings_of(context), CLOCK)
    if json:
        print_json([finding.__dict__ for finding in findings])
    else:
        rows = [("ok" if finding.is_ok else "WRONG", finding.subject, finding.text) for finding in findings]
        print_table(("", "what", "finding"), rows, empty="")
    if not all(finding.is_ok for finding in findings):
        raise typer.Exit(_UNSOUND_STATUS)
