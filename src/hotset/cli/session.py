"""What every command starts from: the settings, a client of the installation, and the options that many share."""

import contextlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer

from hotset.cli.client import AdminClient, open_client
from hotset.cli.config import Flags, read_environment, read_settings
from hotset.cli.output import warn
from hotset.cli.settings import Settings
from hotset.core.clock import SystemClock
from hotset.core.errors import InvalidRequestError
from hotset.engines.settings import EngineKind

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Cut = Annotated[bool, typer.Option("--cut", help="End what is running under it, too.")]
ConfigFile = Annotated[Path | None, typer.Option("-f", "--file", help="hotset.yaml.", show_default=False)]
EngineOption = Annotated[
    EngineKind | None,
    typer.Option("--engine", help="For tenants and for proofs; a fake needs no model.", show_default=False),
]

CLOCK = SystemClock()


def settings_of(context: typer.Context, file: Path | None = None, flags: Flags | None = None) -> Settings:
    """Return the settings, with the state folder that ``--home`` names.

    Raises:
        ConfigError: the configuration is not valid.
    """
    home: Path | None = context.obj
    return read_settings(file, environment=read_environment(), flags=flags, home=home)


@contextlib.contextmanager
def admin(context: typer.Context) -> Generator[AdminClient]:
    """Give a client of the installation.

    Raises:
        ConfigError: the configuration is not valid.
        StateLockedError: another command holds the state folder.
    """
    with open_client(settings_of(context), CLOCK, tell_first_token) as client:
        yield client


def tell_first_token(token: str) -> None:
    """Show the first admin token, which nobody can show again."""
    warn(f"First admin token, for the operator plane over the network (shown this once): {token}")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that takes effect at once and may hurt.

    Raises:
        InvalidRequestError: there is nobody to ask, and no ``--yes``.
        typer.Abort: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequestError(f"{question} Nobody can be asked here: repeat the command with --yes.", param="yes")
    typer.confirm(question, abort=True, err=True)
