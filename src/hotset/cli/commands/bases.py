"""``hotset base``: base models."""

from pathlib import Path
from typing import Annotated

import typer

from hotset.cli.output import moment, print_json, print_table, progress, say
from hotset.cli.session import Json, admin

app = typer.Typer(no_args_is_help=True, help="Base models: register, list, check.")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(app, name="base")


@app.command("add")
def add(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder in Hugging Face format, with safetensors weights.")],
    name: Annotated[str, typer.Option(help="What the base is called here.")],
    synonym: Annotated[
        list[str] | None, typer.Option(help="Another name under which adapters may declare it; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Register a base model: one digest over its files, which stay where they are."""
    body = {"folder": str(folder.absolute()), "name": name, "synonyms": synonym or []}
    with admin(context) as client, progress(f"base {name}") as show:
        answer = client.long("/bases", body, show)
    if json:
        print_json(answer)
    else:
        say(f"Base {answer['name']}: {answer['family']}, {answer['num_layers']} layers, {answer['digest']}")


@app.command("list")
def list_all(context: typer.Context, json: Json = False) -> None:
    """List the base models."""
    with admin(context) as client:
        bases = client.get("/bases")["bases"]
    if json:
        print_json(bases)
        return
    rows = [
        (
            base["name"],
            base["family"],
            base["context_len"],
            base["digest"][:19] + "…",
            base["folder"],
            ", ".join(base["synonyms"]),
            moment(base["created_at_s"]),
        )
        for base in bases
    ]
    columns = ("name", "family", "context", "digest", "folder", "synonyms", "added")
    print_table(columns, rows, empty="There is no base yet: hotset base add DIR --name NAME.")


@app.command("check")
def check(context: typer.Context, name: str, json: Json = False) -> None:
    """Hash a base's files again where they lie."""
    with admin(context) as client, progress(f"base {name}") as show:
        answer = client.long(f"/bases/{name}/check", {}, show)
    if json:
        print_json(answer)
    else:
        say(f"Base {name}: all {answer['num_files']} files are those that were registered.")
