"""The worker's warm tier: one folder a version, filled only with bytes that match an approved record.

Every file is hashed on its way in and hashed again before every load. The folder's name is the engine name, so one
path never stands for two sets of bytes. What a former life left is deleted at start: a copy costs little, and nothing
that this process did not check is ever used.
"""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hotset.core.errors import DigestMismatchError, LoadFailedError
from hotset.core.ids import Digest, EngineName, engine_name
from hotset.core.messages import AdapterLoad
from hotset.registry.approval import ApprovedVersion
from hotset.storage.hashing import hash_file

_FOLDER_MODE = 0o700
_PART = ".part"


class BlobSource(Protocol):
    """Where the trusted store's bytes come from. Calls block, and may come from several threads."""

    def bring(self, digest: Digest, size_bytes: int) -> None:
        """See to it that a blob is on this machine; may take as long as a network takes.

        Raises:
            HotsetError: it can't be had.
            OSError: the disk is full or broken.
        """
        ...

    def copy_verified(self, digest: Digest, destination: Path) -> int:
        """Copy a blob that is here, hashing what is written; return its bytes; see `storage.blobs.BlobStore`."""
        ...


class LocalStore:
    """Verified files of versions on this worker's disk. Calls block, and may come from several threads at a time."""

    def __init__(self, root: Path, blobs: BlobSource) -> None:
        self._root = root
        self._blobs = blobs
        #: A thread that still fetches for an engine that is gone would get into the next one's way.
        self._turn = threading.Lock()
        #: Grows with each emptying: what was being brought for an engine that is gone comes to no other one's store.
        self._num_openings = 0
        #: Numbers what is being filled, so that no two calls fill the same.
        self._num_parts = 0

    def open(self) -> None:
        """Make the folder, empty.

        Raises:
            OSError: it can't be emptied or made.
        """
        with self._turn:
            self._num_openings += 1
            _remove(self._root)
            # Only what still comes for an engine that is gone may have made it anew, and takes its part away itself.
            self._root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            if left := [path for path in self._root.iterdir() if not path.name.endswith(_PART)]:
                raise OSError(f"{left[0]} can't be removed")

    def holds(self, name: EngineName) -> bool:
        """Whether the version's files are here."""
        return (self._root / name).is_dir()

    def materialise(self, approved: ApprovedVersion) -> AdapterLoad:
        """Bring a version's files here if they are not, check every byte, and return what to tell the engine.

        Raises:
            DigestMismatchError: the trusted store's bytes or the local ones are not the approved ones; the local
                folder is gone then.
            LoadFailedError: the store was emptied meanwhile.
            HotsetError: the trusted store can't be reached.
            OSError: the disk is full or broken.
        """
        return approved.load_from(str(self._have(approved, self._intact)))

    def fetch(self, approved: ApprovedVersion) -> None:
        """Bring a version's files here where there are none; those that are here stay, as an engine may hold them.

        Raises:
            HotsetError: as for `materialise`.
            OSError: likewise.
        """
        self._have(approved, lambda folder, _: folder.is_dir())

    def _have(self, approved: ApprovedVersion, is_fine: Callable[[Path, ApprovedVersion], bool]) -> Path:
        """Return the version's folder, filled anew where what is there will not do; nobody waits while it is filled."""
        record = approved.record
        name = engine_name(record.route)
        assert name is not None
        folder = self._root / name
        with self._turn:
            opening, number = self._num_openings, self._num_parts
            self._num_parts += 1
            if is_fine(folder, approved):
                return folder
            _remove(folder)
        for entry in record.manifest.files:
            self._blobs.bring(entry.digest, entry.size_bytes)
        part = folder.with_name(f"{name}-{number}{_PART}")
        try:
            self._fill(part, approved)
            with self._turn:
                if opening != self._num_openings:
                    raise LoadFailedError("The engine that the adapter was for is gone.")
                if not is_fine(folder, approved):  # as it is where another call brought it meanwhile
                    _remove(folder)
                    part.rename(folder)
        finally:
            _remove(part)
        return folder

    def discard(self, name: EngineName) -> None:
        """Delete a version's files; harmless where there are none."""
        with self._turn:
            _remove(self._root / name)

    def _fill(self, part: Path, approved: ApprovedVersion) -> None:
        """Copy a version's blobs, that are on this machine, into a folder of their own; every byte is hashed."""
        _remove(part)
        self._root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)  # somebody may have tidied it away
        part.mkdir(mode=_FOLDER_MODE)
        for entry in approved.record.manifest.files:
            self._blobs.copy_verified(entry.digest, part / entry.name)

    def _intact(self, folder: Path, approved: ApprovedVersion) -> bool:
        """Whether the folder holds exactly the approved bytes."""
        if not folder.is_dir() or folder.is_symlink():
            return False
        expected = {entry.name: entry.digest for entry in approved.record.manifest.files}
        if {path.name for path in folder.iterdir()} != set(expected):
            return False
        try:
            return all(hash_file(folder / name)[0] == digest for name, digest in expected.items())
        except (OSError, DigestMismatchError):
            return False


def _remove(path: Path) -> None:
    """Delete whatever is at the path: a folder with all in it, or a link, never what the link points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
