"""Errors and workers in the words of the command line."""

from collections.abc import Mapping
from typing import Any

from hotset.core.errors import HotsetError, VersionRefusedError


def worded(error: HotsetError) -> str:
    """Return an error as a command prints it: its code, and its message, which says what to do."""
    code = error.reason if isinstance(error, VersionRefusedError) else error.code
    return f"{code}: {error.message}"


def named(worker: Mapping[str, Any]) -> str:
    """Return how a worker is called: by its base, and by its own name where it is one of a fleet."""
    return f"{worker['worker']} ({worker['base']})" if worker["worker"] else str(worker["base"])
