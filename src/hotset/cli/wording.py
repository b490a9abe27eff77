"""Errors in the words of the command line."""

from hotset.core.errors import HotsetError, VersionRefusedError


def worded(error: HotsetError) -> str:
    """Return an error as a command prints it: its code, and its message, which says what to do."""
    code = error.reason if isinstance(error, VersionRefusedError) else error.code
    return f"{code}: {error.message}"
