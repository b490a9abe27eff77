"""The folder of one gateway or worker process: its lock, its last snapshot and, for a worker, its fence and store.

It lies in the state folder, beside those of the other processes of the machine, each with a lock of its own.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hotset.core.errors import StateLockedError
from hotset.storage.durable import make_private_folder, write_durably
from hotset.storage.kept_snapshot import KeptSnapshot
from hotset.storage.kept_usage import KeptUsage


class HolderFolder:
    """Paths under one such folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.snapshot = KeptSnapshot(path / "snapshot")
        self.usage = KeptUsage(path / "usage")
        #: A worker's local store.
        self.store = path / "store"
        #: What a worker that can't open the trusted store fetched of it.
        self.blobs = path / "blobs"
        self._fence = path / "fence"
        self._lock = path / "lock"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder for this process; the lock dies with the process, however it ends.

        Raises:
            StateLockedError: another process holds it.
        """
        make_private_folder(self.path)
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateLockedError(
                    f"{self.path} is held by another Hotset process: give this one a name of its own with --name."
                ) from error
            yield
        finally:
            os.close(handle)

    def read(self) -> int:
        """Return the last fence under which a worker served from this folder; 0 where none did."""
        try:
            text = self._fence.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return 0
        return int(text) if text.isdigit() else 0

    def keep(self, fence: int) -> None:
        """Keep a fence, durably."""
        write_durably(self._fence, f"{fence}\n".encode())
