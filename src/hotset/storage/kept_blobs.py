"""Blobs of a trusted store elsewhere that this machine keeps for itself, within a bound of bytes.

What arrives is hashed on its way in and appears whole and right, or not at all. What was cut off stays as a part, so
that the next try goes on from there. A blob is kept until there is no room for newer ones: what was used longest ago
goes first.
"""

import errno
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hotset.core.errors import DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.blobs import BlobStore
from hotset.storage.durable import PART_SUFFIX
from hotset.storage.hashing import CHUNK_BYTES, as_digest

#: What nobody went on with for so long is nobody's any more, in seconds: a worker that starts again goes on sooner.
PART_KEPT_S = 3600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ArrivingBlob:
    """A blob that comes in pieces, in order."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        """Take in what came before.

        Args:
            file: With that, open for reading and writing.
            size_bytes: How many bytes there are to be.
        """
        self._file = file
        self._size_bytes = size_bytes
        self._hasher = hashlib.sha256()
        #: How many are here.
        self.num_bytes = 0
        while chunk := file.read(CHUNK_BYTES):
            self._hasher.update(chunk)
            self.num_bytes += len(chunk)

    def add(self, content: bytes) -> None:
        """Take the next piece in.

        Raises:
            DigestMismatchError: there are more bytes than there are to be.
        """
        self.num_bytes += len(content)
        if self.num_bytes > self._size_bytes:
            raise DigestMismatchError(f"A blob of {self._size_bytes} bytes goes on after its end.")
        self._hasher.update(content)
        self._file.write(content)

    def digest(self) -> Digest:
        """Return the digest of what is here."""
        return as_digest(self._hasher.hexdigest())


class KeptBlobs(BlobStore):
    """A `BlobStore` that fills from elsewhere."""

    def __init__(self, root: Path, bytes_max: int) -> None:
        """Open the store.

        Args:
            root: Of this store alone: it erases what it has no room for.
            bytes_max: Of all blobs together; one that is larger is kept until the next one comes.
        """
        super().__init__(root)
        self._bytes_max = bytes_max

    @contextmanager
    def receiving(self, digest: Digest, size_bytes: int) -> Generator[ArrivingBlob]:
        """Give a blob to fill; it is in the store once the block ends well. Only one caller at a time may fill it.

        Raises:
            DigestMismatchError: what came is not the blob; nothing of it stays.
            OSError: the disk is full or broken; where it is full, others have given way for the next try.
        """
        part = self._incoming / f"{self._path(digest).name}{PART_SUFFIX}"
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "r+b") as file:
                arriving = ArrivingBlob(file, size_bytes)
                yield arriving
                if arriving.digest() != digest:
                    raise DigestMismatchError(f"What came for {digest} hashes to {arriving.digest()}.")
                file.flush()
                os.fsync(file.fileno())
        except DigestMismatchError:
            part.unlink(missing_ok=True)
            raise
        except OSError as error:
            if error.errno in _FULL:
                part.unlink(missing_ok=True)
                self._free(size_bytes, digest)
            raise
        part.chmod(0o400)
        self._keep(part, digest)
        part.unlink(missing_ok=True)  # where the same bytes were there already
        self._make_room(digest)

    def sweep_parts(self, now_s: float) -> int:
        """Remove what was cut off and nobody went on with for `PART_KEPT_S`; return how many. Only while nothing comes.

        Args:
            now_s: Wall-clock seconds, as files' times are.

        Raises:
            OSError: the disk is broken.
        """
        old = [part for part in self._incoming.iterdir() if now_s - part.lstat().st_mtime > PART_KEPT_S]
        for part in old:
            part.unlink(missing_ok=True)
        return len(old)

    def use(self, digest: Digest) -> bool:
        """Whether the blob is here; it counts as used now."""
        try:
            os.utime(self._path(digest))
        except FileNotFoundError:
            return False
        return True

    def copy_verified(self, digest: Digest, destination: Path) -> int:
        """Copy a blob out; see `BlobStore`. Where the disk is full, others give way for the next try."""
        try:
            return super().copy_verified(digest, destination)
        except OSError as error:
            if error.errno in _FULL:
                self._free(self._path(digest).stat().st_size, digest)
            raise

    def _make_room(self, newest: Digest) -> None:
        """Erase what was used longest ago until the rest fits; never the newest."""
        total = sum(self._path(digest).stat().st_size for digest in self.digests())
        self._free(total - self._bytes_max, newest)

    def _free(self, num_bytes: int, newest: Digest) -> None:
        """Erase what was used longest ago, so many bytes of it, or all but the newest."""
        found = [(self._path(digest).stat().st_mtime_ns, digest) for digest in self.digests()]
        for _, digest in sorted(found):
            if num_bytes > 0 and digest != newest:
                num_bytes -= self.delete(digest)
