"""``hotset adapter``: publish versions and take them through their life."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hotset.cli.local_verify import is_folder, verify_against_folder
from hotset.cli.output import moment, print_json, print_table, progress, size
from hotset.cli.session import Cut, Json, Yes, admin, confirm, settings_of
from hotset.cli.version_steps import Goal, bring_to, version_path
from hotset.cli.version_words import print_version, state_words, tell_verdict, tell_version
from hotset.registry.verify import VerifyPolicy

app = typer.Typer(no_args_is_help=True, help="Adapters: publish them, bring them into service, take them out.")

Folder = Annotated[Path, typer.Argument(help="Folder with adapter_config.json and safetensors weights.")]
Ref = Annotated[str, typer.Argument(help="owner/name@N.")]
RankMax = Annotated[int | None, typer.Option(help="Largest rank; by default what the engines take.")]
IgnoreTokenizer = Annotated[
    bool, typer.Option("--ignore-shipped-tokenizer", help="Accept another tokenizer or chat template in the folder.")
]
OtherBase = Annotated[bool, typer.Option("--other-base", help="Accept that it declares another base, or none.")]
Reason = Annotated[str, typer.Option(help="Why; kept in the audit log.")]
REFUSED_STATUS = 2


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(app, name="adapter")


@app.command("verify")
def verify(
    context: typer.Context,
    folder: Folder,
    base: Annotated[
        str, typer.Option(help="A registered base's name, or a base model's folder, written with a slash.")
    ],
    synonym: Annotated[
        list[str] | None, typer.Option(help="With a base's folder: a name under which the adapter may declare it.")
    ] = None,
    max_rank: RankMax = None,
    ignore_shipped_tokenizer: IgnoreTokenizer = False,
    other_base: OtherBase = False,
    json: Json = False,
) -> None:
    """Say whether an adapter would be admitted, without storing it: status 0 accepted, 2 refused."""
    wanted = overrides(ignore_shipped_tokenizer, other_base)
    if is_folder(base):
        engine = settings_of(context).engine
        policy = VerifyPolicy(max_rank or engine.rank_max, engine.verified_dtype, frozenset(wanted))
        verdict = verify_against_folder(folder, Path(base), tuple(synonym or ()), policy)
    else:
        with (
            admin(context) as client,
            progress(f"verify {folder.name}") as show,
            client.submitted(folder, show) as source,
        ):
            body = {**source, "base": base, "rank_max": max_rank, "overrides": wanted}
            verdict = client.long("/verify", body, show)
    tell_verdict(verdict, as_json=json)
    if verdict["verdict"] != "accepted":
        raise typer.Exit(REFUSED_STATUS)


@app.command("push")
def push(
    context: typer.Context,
    folder: Folder,
    adapter: Annotated[str, typer.Argument(help="owner/name.")],
    base: Annotated[str, typer.Option(help="The registered base it was trained for.")],
    max_rank: RankMax = None,
    ignore_shipped_tokenizer: IgnoreTokenizer = False,
    other_base: OtherBase = False,
    prove: Annotated[bool, typer.Option("--prove", help="Prove it on an engine of its own.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Prove and approve it.")] = False,
    promote: Annotated[bool, typer.Option("--promote", help="Prove, approve and make it the active version.")] = False,
    json: Json = False,
) -> None:
    """Publish a folder's bytes as an immutable version."""
    wanted = overrides(ignore_shipped_tokenizer, other_base)
    goal: Goal = "active" if promote else "approved" if approve else "proved" if prove else "verified"
    with admin(context) as client, progress(adapter) as show:
        with client.submitted(folder, show) as source:
            body = {**source, "base": base, "rank_max": max_rank, "overrides": wanted}
            version = client.long(f"/adapters/{adapter}/versions", body, show)
        version = bring_to(client, version, goal, show)
    tell_version(version, as_json=json)


@app.command("list")
def list_all(
    context: typer.Context,
    owner: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    json: Json = False,
) -> None:
    """List the adapters and their versions."""
    with admin(context) as client:
        adapters = client.get("/adapters", owner=owner)["adapters"]
    if json:
        print_json(adapters)
        return
    rows = [
        (
            row["ref"],
            state_words(row),
            row["base"],
            row["rank_max"],
            size(row["size_bytes"]),
            moment(row["created_at_s"]),
        )
        for adapter in adapters
        for row in adapter["versions"]
    ]
    columns = ("version", "state", "base", "rank", "size", "published")
    print_table(columns, rows, empty="There is no adapter yet: hotset adapter push DIR owner/name --base B.")


@app.command("show")
def show_one(
    context: typer.Context, ref: Annotated[str, typer.Argument(help="owner/name or owner/name@N.")], json: Json = False
) -> None:
    """Show an adapter or one of its versions."""
    with admin(context) as client:
        found = client.get(version_path(ref) if "@" in ref else f"/adapters/{ref}")
    if json:
        print_json(found)
    elif "@" in ref:
        print_version(found)
    else:
        rows = [
            (row["ref"], row["state"], row["reason"], row["rank_max"], size(row["size_bytes"]), row["digest"])
            for row in found["versions"]
        ]
        print_table(("version", "state", "reason", "rank", "size", "digest"), rows, empty="It has no version yet.")


@app.command("prove")
def prove_one(context: typer.Context, ref: Ref, json: Json = False) -> None:
    """Prove a version: run it on an engine of its own and keep its fingerprint."""
    with admin(context) as client, progress(ref) as show:
        version = client.long(f"{version_path(ref)}/prove", {}, show)
    tell_version(version, as_json=json)


@app.command("approve")
def approve_one(
    context: typer.Context,
    ref: Ref,
    accept_unprovable: Annotated[
        bool, typer.Option("--accept-unprovable", help="Although its effect is within the noise.")
    ] = False,
    json: Json = False,
) -> None:
    """Sign that a version may be served."""
    _step(context, ref, "approve", {"accept_unprovable": accept_unprovable}, json)


@app.command("promote")
def promote_one(context: typer.Context, ref: Ref, json: Json = False) -> None:
    """Make a version the active one; the former stands by."""
    _step(context, ref, "promote", {}, json)


@app.command("retire")
def retire_one(context: typer.Context, ref: Ref, cut: Cut = False, yes: Yes = False, json: Json = False) -> None:
    """Take a version out of service for ever."""
    confirm(f"Retire {ref}?", yes=yes)
    _step(context, ref, "retire", {"cut": cut}, json)


@app.command("quarantine")
def quarantine_one(
    context: typer.Context,
    ref: Ref,
    reason: Reason,
    cut: Cut = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Hold a version's bytes back, under any name, until they are released."""
    confirm(f"Serve {ref} no more until it is released?", yes=yes)
    _step(context, ref, "quarantine", {"reason": reason, "cut": cut}, json)


@app.command("release")
def release_one(context: typer.Context, ref: Ref, reason: Reason, yes: Yes = False, json: Json = False) -> None:
    """End a version's quarantine; its state is what it was, or became meanwhile."""
    confirm(f"Let {ref} be served again?", yes=yes)
    _step(context, ref, "release", {"reason": reason}, json)


@app.command("ban")
def ban_one(context: typer.Context, ref: Ref, reason: Reason, yes: Yes = False, json: Json = False) -> None:
    """Ban a version's bytes for ever, under any name, and end what runs under them."""
    confirm(f"Ban the bytes of {ref} for ever, everywhere?", yes=yes)
    _step(context, ref, "ban", {"reason": reason}, json)


@app.command("purge")
def purge_one(context: typer.Context, ref: Ref, yes: Yes = False, json: Json = False) -> None:
    """Erase a version's bytes and keep its record."""
    confirm(f"Erase the bytes of {ref}?", yes=yes)
    _step(context, ref, "purge", {}, json)


def overrides(ignore_shipped_tokenizer: bool, other_base: bool) -> list[str]:
    """Return the names of the overrides that were asked for."""
    asked = {"ignore_shipped_tokenizer": ignore_shipped_tokenizer, "other_base": other_base}
    return [name for name, is_wanted in asked.items() if is_wanted]


def _step(context: typer.Context, ref: str, verb: str, body: dict[str, Any], as_json: bool) -> None:
    with admin(context) as client:
        version = client.post(f"{version_path(ref)}/{verb}", body)
    tell_version(version, as_json=as_json)
