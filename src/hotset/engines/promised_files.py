"""Checks that a version's folder holds the bytes it was approved with (I6), before an engine reads them by itself."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest


def check_promised(folder: str, files: Mapping[str, Digest]) -> int:
    """Read each file of a version's folder; return the bytes of all.

    Raises:
        LoadFailedError: a file can't be read, or holds other bytes than promised.
    """
    num_bytes = 0
    for name, digest in files.items():
        try:
            content = (Path(folder) / name).read_bytes()
        except OSError as error:
            raise LoadFailedError(f"{name} can't be read: {error.strerror}.") from error
        if digest_of(content) != digest:
            raise LoadFailedError(f"{name} does not have the digest it was approved under.")
        num_bytes += len(content)
    return num_bytes


def digest_of(content: bytes) -> Digest:
    """Return the digest of some bytes."""
    return Digest(f"sha256:{hashlib.sha256(content).hexdigest()}")
