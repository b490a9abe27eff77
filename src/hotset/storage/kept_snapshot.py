"""The last snapshot of a gateway or worker, on its own disk, so that it can start and go on while control is away.

The file holds hashes of keys, never keys. It begins with the SHA-256 of the rest; one that does not match is not used.
"""

import asyncio
import hashlib
import logging
import os
from pathlib import Path

import msgspec

from hotset.core.snapshot import RoutingSnapshot
from hotset.storage.durable import write_durably

_log = logging.getLogger(__name__)
_DIGEST_BYTES = 32


class KeptSnapshot:
    """One file with one snapshot. Calls block; run them off the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, snapshot: RoutingSnapshot) -> None:
        """Put this snapshot in the place of the last one, whole or not at all.

        Raises:
            OSError: the disk is full or broken.
        """
        content = msgspec.msgpack.encode(snapshot)
        write_durably(self._path, hashlib.sha256(content).digest() + content, mode=0o600)

    def confirm(self, wall_s: float) -> None:
        """Note that control was there at this moment, in wall-clock seconds."""
        if self._path.exists():
            os.utime(self._path, (wall_s, wall_s))

    def read(self) -> RoutingSnapshot | None:
        """Return the snapshot that was kept; None where there is none, or it is damaged or of another release."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            _log.error("%s is damaged; it is not used", self._path)
            return None
        try:
            return msgspec.msgpack.decode(body, type=RoutingSnapshot)
        except msgspec.MsgspecError as error:
            _log.error("%s is of another release; it is not used: %s", self._path, error)
            return None

    def confirmed_at_s(self) -> float | None:
        """Return when control was last known to be there, in wall-clock seconds; None where nothing was kept."""
        try:
            return self._path.stat().st_mtime
        except FileNotFoundError:
            return None


class SnapshotKeeper:
    """Keeps the newest snapshot without holding the event loop up; those that come while one is written are joined."""

    def __init__(self, kept: KeptSnapshot) -> None:
        self._kept = kept
        self._newest: RoutingSnapshot | None = None
        self._writing: asyncio.Task[None] | None = None

    def offer(self, snapshot: RoutingSnapshot) -> None:
        """Keep this one, soon."""
        self._newest = snapshot
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def settle(self) -> None:
        """Return once the newest is kept."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._newest is not None:
            snapshot, self._newest = self._newest, None
            try:
                await asyncio.to_thread(self._kept.keep, snapshot)
            except OSError as error:
                _log.error("a snapshot could not be kept: %s", error)
