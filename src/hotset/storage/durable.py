"""Files that survive a power cut: written whole under another name, flushed, renamed, the folder flushed.

A reader sees the former content or the new one, never a part of either.
"""

import os
import secrets
from pathlib import Path

PART_SUFFIX = ".part"


def fsync_folder(folder: Path) -> None:
    """Make the folder's entries (creations, renames, removals) durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Put `content` at `path`, whole or not at all, readable as `mode` says from the first moment."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}{PART_SUFFIX}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def make_private_folder(path: Path) -> None:
    """Make the folder, and any above it that is missing, with mode 0700; tighten it where it is wider."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)
