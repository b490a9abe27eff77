"""The ``hotset`` command: gathers the commands, and turns an error into one line and an exit status.

Exit status: 0 done, 1 an error, 2 refused or wrongly used.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import hotset
from hotset.cli.commands import (
    adapters,
    bases,
    bench,
    fleet,
    installation,
    jobs,
    on_call,
    pools,
    processes,
    residency,
    serving,
    tenancy,
    terms,
)
from hotset.cli.output import warn
from hotset.cli.wording import worded
from hotset.core.errors import (
    ConfigError,
    HotsetError,
    InvalidNameError,
    InvalidRequestError,
    ProofFailedError,
    VersionRefusedError,
)

_REFUSED = (VersionRefusedError, ProofFailedError, InvalidNameError, InvalidRequestError, ConfigError)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Serve many tenants' LoRA adapters over shared base models.",
)
for module in (
    serving,
    processes,
    bases,
    adapters,
    tenancy,
    terms,
    pools,
    fleet,
    residency,
    jobs,
    on_call,
    installation,
    bench,
):
    module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hotset {hotset.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="State folder; else HOTSET_HOME, else the platform's data folder.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Serve many tenants' LoRA adapters over shared base models."""
    context.obj = home


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        app(args=list(arguments), prog_name="hotset")
    except HotsetError as error:
        warn(worded(error))
        return 2 if isinstance(error, _REFUSED) else 1
    except KeyboardInterrupt:
        return 130
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return 0


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))
