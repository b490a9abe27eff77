"""SHA-256 of files, with progress; the digest word that blobs, bases and uploads share."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hotset.core.ids import Digest

CHUNK_BYTES = 1 << 20

#: Called with the number of bytes that were just done; from any thread.
OnBytes = Callable[[int], None]


def open_plain(path: Path) -> int:
    """Open a regular file for reading without following a link at its last part; return the handle.

    Raises:
        OSError: it is not there, is a link, a pipe or a device, or may not be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return handle


def chunks_of(handle: int) -> Iterator[bytes]:
    """Yield the rest of an open file in pieces of at most `CHUNK_BYTES`."""
    while chunk := os.read(handle, CHUNK_BYTES):
        yield chunk


def hash_file(path: Path, on_bytes: OnBytes | None = None) -> tuple[Digest, int]:
    """Return the digest and size in bytes of a file, read to its end."""
    hasher = hashlib.sha256()
    size = 0
    handle = open_plain(path)
    try:
        for chunk in chunks_of(handle):
            hasher.update(chunk)
            size += len(chunk)
            if on_bytes is not None:
                on_bytes(len(chunk))
    finally:
        os.close(handle)
    return as_digest(hasher.hexdigest()), size


def hash_files(paths: list[Path], on_bytes: OnBytes | None = None, num_threads: int = 4) -> list[Digest]:
    """Return the digests of many files, in the order given, hashed in parallel threads."""
    with ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="hash") as pool:
        hashed = [pool.submit(hash_file, path, on_bytes) for path in paths]
        return [future.result()[0] for future in hashed]


def as_digest(hexadecimal: str) -> Digest:
    """Return 64 hex digits as a digest."""
    return Digest(f"sha256:{hexadecimal}")
