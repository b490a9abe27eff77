"""The digests that fix a base version and a version: functions of names, sizes and file digests alone."""

import hashlib

from hotset.core.ids import Digest
from hotset.core.versions import FileEntry


def version_digest(base: Digest, files: tuple[FileEntry, ...]) -> Digest:
    """Return the digest of a version's bytes on one base, over its files' names, sizes and digests.

    Independent of file order; changes with any byte of any file and with the base version.
    """
    lines = [
        base,
        *(f"{entry.name}\x00{entry.size_bytes}\x00{entry.digest}" for entry in sorted(files, key=lambda e: e.name)),
    ]
    return Digest("sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest())


def base_digest(files: dict[str, Digest]) -> Digest:
    """Return the digest of a base version over its files' names and digests, in any order."""
    lines = [f"{name}\x00{digest}" for name, digest in sorted(files.items())]
    return Digest("sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest())
