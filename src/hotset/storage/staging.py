"""The staging area: uploads on their way in, and folders that a prover reads. Nothing here is trusted or lasting.

A file is written under ``incoming/`` and renamed into its upload when it is whole, so an upload never holds a part of
a file. Claiming an upload renames its folder: of two claims one wins, and a late file finds no folder to go to.
"""

import hashlib
import re
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hotset.core.errors import ConflictError, InvalidNameError, NotFoundError, RequestTooLargeError
from hotset.core.ids import Digest
from hotset.storage.durable import make_private_folder
from hotset.storage.hashing import as_digest

_UPLOAD = re.compile(r"[0-9a-f]{32}", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", re.ASCII)
_STALE_AFTER_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """What one upload may hold."""

    #: Bytes of one file.
    file_bytes_max: int = 4 << 30
    #: Bytes of all its files together.
    upload_bytes_max: int = 8 << 30
    #: Files of one upload.
    num_files_max: int = 256
    #: Uploads that are staged at once.
    num_uploads_max: int = 64


class StagedFile:
    """A file that is being received; give it bytes, then let the block end."""

    def __init__(self, file: BinaryIO, bytes_max: int, name: str) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._name = name
        self._hasher = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> Digest:
        """The digest of what was written so far."""
        return as_digest(self._hasher.hexdigest())

    def write(self, chunk: bytes) -> None:
        """Append bytes.

        Raises:
            RequestTooLargeError: the file or its upload would be larger than it may.
        """
        self.size += len(chunk)
        if self.size > self._bytes_max:
            raise RequestTooLargeError(f"{self._name} is larger than an upload may be ({self._bytes_max} bytes left).")
        self._hasher.update(chunk)
        self._file.write(chunk)


class Staging:
    """Folders under ``staging/``, each named by 128 random bits."""

    def __init__(self, root: Path, limits: UploadLimits | None = None) -> None:
        self._root = root
        self._limits = limits or UploadLimits()
        self._incoming = root / "incoming"
        make_private_folder(root)
        make_private_folder(self._incoming)

    def create_upload(self) -> str:
        """Start an upload; return its id.

        Raises:
            RequestTooLargeError: there are as many unfinished uploads as may be.
        """
        if sum(1 for _ in self._root.glob("upload-*")) >= self._limits.num_uploads_max:
            raise RequestTooLargeError("Too many unfinished uploads; finish or delete some, or run `hotset store gc`.")
        upload = secrets.token_hex(16)
        (self._root / f"upload-{upload}").mkdir(mode=0o700)
        return upload

    def upload_folder(self, upload: str) -> Path:
        """Return the folder of an upload.

        Raises:
            NotFoundError: there is no such upload, or it was used up.
        """
        folder = self._root / f"upload-{upload}"
        if not _UPLOAD.fullmatch(upload) or not folder.is_dir():
            raise NotFoundError("There is no such upload; it may have been used up.", param="upload")
        return folder

    @contextmanager
    def receive(self, upload: str, name: str) -> Generator[StagedFile]:
        """Receive one file into an upload; it is there, whole, once the block ends without an error.

        Raises:
            InvalidNameError: the name is no plain file name.
            NotFoundError: there is no such upload.
            ConflictError: the upload has a file of this name.
            RequestTooLargeError: too many files or bytes.
        """
        folder = self.upload_folder(upload)
        _check_file_name(name)
        part = self._incoming / secrets.token_hex(16)
        try:
            with part.open("xb") as file:
                part.chmod(0o600)
                staged = StagedFile(file, self._room(folder, name), name)
                yield staged
            if staged.size > self._room(folder, name):  # others of the upload came meanwhile
                raise RequestTooLargeError(f"{name} and what came meanwhile are larger than an upload may be.")
            _move_in(part, folder / name)
        finally:
            part.unlink(missing_ok=True)

    def claim(self, upload: str) -> Path:
        """Take the upload out of its sender's reach; return its folder, which the caller discards.

        Raises:
            NotFoundError: there is no such upload, or another call has claimed it.
        """
        folder = self.upload_folder(upload)
        claimed = self._root / f"claimed-{upload}"
        try:
            folder.rename(claimed)
        except FileNotFoundError as error:
            raise NotFoundError("There is no such upload; it may have been used up.", param="upload") from error
        return claimed

    def discard_upload(self, upload: str) -> None:
        """Throw an upload away.

        Raises:
            NotFoundError: there is no such upload.
        """
        self.discard(self.claim(upload))

    def create_scratch(self) -> Path:
        """Make an empty folder, which the caller discards."""
        folder = self._root / f"scratch-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    def discard(self, folder: Path) -> None:
        """Remove a claimed upload or a scratch folder; what can't be removed now, the next start removes."""
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, now_s: float | None = None) -> int:
        """Remove what was left behind; return how many things.

        Args:
            now_s: Wall-clock seconds; only uploads untouched for a day go. None: everything goes, as at start,
                when nobody can be using any of it.
        """
        if now_s is None:
            stale = [*self._root.glob("*-*"), *self._incoming.iterdir()]
        else:
            oldest_s = now_s - _STALE_AFTER_S
            stale = [path for path in self._root.glob("upload-*") if path.stat().st_mtime < oldest_s]
        for path in stale:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return len(stale)

    def _room(self, folder: Path, name: str) -> int:
        """Return how many bytes a further file may have."""
        if (folder / name).exists():
            raise ConflictError(f"The upload already has a file {name}.", param="filename")
        try:
            sizes = [path.stat().st_size for path in folder.iterdir()]
        except FileNotFoundError as error:
            raise NotFoundError("There is no such upload; it may have been used up.", param="upload") from error
        if len(sizes) >= self._limits.num_files_max:
            raise RequestTooLargeError(f"An upload holds at most {self._limits.num_files_max} files.")
        return min(self._limits.file_bytes_max, self._limits.upload_bytes_max - sum(sizes))


def _move_in(part: Path, target: Path) -> None:
    """Rename a whole file into its upload, without replacing one that came first."""
    try:
        target.hardlink_to(part)
    except FileExistsError as error:
        raise ConflictError(f"The upload already has a file {target.name}.", param="filename") from error
    except FileNotFoundError as error:
        raise NotFoundError("There is no such upload; it may have been used up.", param="upload") from error


def _check_file_name(name: str) -> None:
    if not _FILE_NAME.fullmatch(name):
        rule = "1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-', not starting with '.'"
        raise InvalidNameError("filename", name, rule)
