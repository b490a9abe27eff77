"""Content-addressed blobs: bytes kept under their own digest, never changed, re-hashed whenever they leave.

``blobs/sha256/ab/abcd…`` holds admitted bytes (0400); ``blobs/incoming`` holds what is being written. A blob
appears by one rename, so a crash leaves a whole blob or a stray in ``incoming``. What a blob means, and
whether anything still names it, is the catalogue's.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.durable import PART_SUFFIX, fsync_folder, make_private_folder
from hotset.storage.hashing import OnBytes, as_digest, chunks_of, hash_file, open_plain

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


class BlobStore:
    """The trusted store's bytes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sha256 = root / "sha256"
        self._incoming = root / "incoming"
        for folder in (root, self._sha256, self._incoming):
            make_private_folder(folder)

    def ingest(self, source: Path, on_bytes: OnBytes | None = None) -> tuple[Digest, int]:
        """Copy a staged file into the store, byte for byte.

        A blob that is there already is checked, and replaced if its bytes have rotted.

        Args:
            source: A plain file; a link is refused.
            on_bytes: Called with each number of bytes copied.

        Returns:
            The digest of the bytes that were stored, and their number.

        Raises:
            OSError: the source is no plain file, or the disk is full.
        """
        part = self._incoming / f"{secrets.token_hex(16)}{PART_SUFFIX}"
        try:
            digest, size = _copy(source, part, on_bytes)
            self._keep(part, digest)
        finally:
            part.unlink(missing_ok=True)
        return digest, size

    def copy_verified(self, digest: Digest, destination: Path) -> int:
        """Copy a blob out, hashing the very bytes that are written; return their number.

        `destination` appears whole and right (0400), or not at all.

        Raises:
            DigestMismatchError: the blob is missing, or its bytes no longer have its digest.
        """
        blob = self._path(digest)
        part = destination.with_name(f".{destination.name}.{secrets.token_hex(6)}{PART_SUFFIX}")
        try:
            found, size = _copy(blob, part, None)
            if found != digest:
                raise DigestMismatchError(f"The stored bytes of {digest} now hash to {found}.")
            part.replace(destination)
        except FileNotFoundError as error:
            if blob.exists():
                raise
            raise DigestMismatchError(f"The stored bytes of {digest} are missing.") from error
        finally:
            part.unlink(missing_ok=True)
        fsync_folder(destination.parent)
        return size

    def verify(self, digest: Digest, on_bytes: OnBytes | None = None) -> int:
        """Hash a blob where it lies; return its size in bytes.

        Raises:
            DigestMismatchError: the blob is missing, or its bytes no longer have its digest.
        """
        try:
            found, size = hash_file(self._path(digest), on_bytes)
        except FileNotFoundError as error:
            raise DigestMismatchError(f"The stored bytes of {digest} are missing.") from error
        if found != digest:
            raise DigestMismatchError(f"The stored bytes of {digest} now hash to {found}.")
        return size

    def open(self, digest: Digest) -> int:
        """Open a blob for reading, as it lies; return the handle, which is the caller's to close.

        Raises:
            DigestMismatchError: the blob is missing.
        """
        try:
            return open_plain(self._path(digest))
        except FileNotFoundError as error:
            raise DigestMismatchError(f"The stored bytes of {digest} are missing.") from error

    def bring(self, digest: Digest, size_bytes: int) -> None:
        """Nothing is to be brought: what the trusted store has is here; see `worker.local_store.BlobSource`."""

    def contains(self, digest: Digest) -> bool:
        """Whether a blob of this digest is there; says nothing of its bytes."""
        return self._path(digest).exists()

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of every blob, in order."""
        for folder in sorted(self._sha256.iterdir()):
            for blob in sorted(folder.iterdir()):
                if _HEX.fullmatch(blob.name):
                    yield as_digest(blob.name)

    def delete(self, digest: Digest) -> int:
        """Erase a blob; return the bytes freed, 0 where it was not there."""
        blob = self._path(digest)
        try:
            size = blob.stat().st_size
            blob.unlink()
        except FileNotFoundError:
            return 0
        fsync_folder(blob.parent)
        return size

    def sweep(self) -> int:
        """Remove what writes that never ended left behind; return how many. Only while nothing ingests."""
        strays = list(self._incoming.iterdir())
        for stray in strays:
            stray.unlink(missing_ok=True)
        return len(strays)

    def _path(self, digest: Digest) -> Path:
        matched = _DIGEST.fullmatch(digest)
        if matched is None:
            raise DigestMismatchError(f"{digest[:80]!r} is not a digest.")
        hexadecimal = matched[1]
        return self._sha256 / hexadecimal[:2] / hexadecimal

    def _keep(self, part: Path, digest: Digest) -> None:
        blob = self._path(digest)
        if blob.exists() and hash_file(blob)[0] == digest:
            return
        if not blob.parent.exists():
            make_private_folder(blob.parent)
            fsync_folder(self._sha256)
        part.replace(blob)
        fsync_folder(blob.parent)


def _copy(source: Path, target: Path, on_bytes: OnBytes | None) -> tuple[Digest, int]:
    """Copy a plain file into a new 0400 file, flushed; return digest and size of what was written."""
    hasher = hashlib.sha256()
    size = 0
    source_handle = open_plain(source)
    try:
        target_handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
        with os.fdopen(target_handle, "wb") as file:
            for chunk in chunks_of(source_handle):
                hasher.update(chunk)
                size += len(chunk)
                file.write(chunk)
                if on_bytes is not None:
                    on_bytes(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(source_handle)
    return as_digest(hasher.hexdigest()), size
