"""Commands that keep the store in order: collect garbage, hash everything, read and check the audit log."""

import asyncio
from dataclasses import dataclass

from hotset.control.actors import Actor
from hotset.control.commits import Commits
from hotset.control.progress import Progress, Report, silent
from hotset.core.errors import ConfigError, DigestMismatchError
from hotset.core.ids import Digest
from hotset.storage.audit import AuditVerdict
from hotset.storage.blobs import BlobStore
from hotset.storage.rows import AuditRow
from hotset.storage.staging import Staging

AUDIT_LIMIT_MAX = 1000


@dataclass(frozen=True, slots=True)
class Freed:
    """What garbage collection removed."""

    num_blobs: int
    num_bytes: int
    num_staging: int


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """What hashing the whole store found."""

    num_blobs: int
    num_bytes: int
    #: Blobs whose bytes no longer have their digest, or can't be read.
    damaged: tuple[Digest, ...]
    #: Blobs that a version names and that are not there.
    missing: tuple[Digest, ...]


class Upkeep:
    """The store's order: one method a command."""

    def __init__(self, commits: Commits, blobs: BlobStore, staging: Staging, store_lock: asyncio.Lock) -> None:
        self._commits = commits
        self._blobs = blobs
        self._staging = staging
        self._store_lock = store_lock

    async def collect_garbage(self, actor: Actor, *, at_start: bool = False) -> Freed:
        """Erase blobs that no version names, and uploads left behind for a day.

        Args:
            actor: An admin.
            at_start: Nothing else is running yet, so everything in staging is garbage.

        Raises:
            PermissionDeniedError: the actor is no admin.
        """
        actor.require("admin")
        async with self._store_lock:
            named = await self._commits.read(lambda catalogue: catalogue.versions.named_blobs())
            freed = await asyncio.to_thread(self._free, named, None if at_start else self._commits.now_s())
            if freed.num_blobs or not at_start:
                await self._commits.run(
                    actor,
                    lambda change: change.audit("store.gc", "store", num_blobs=freed.num_blobs, bytes=freed.num_bytes),
                )
        return freed

    async def check_not_orphaned(self) -> None:
        """Refuse a store whose database was lost: to an empty one every blob is garbage, and would be erased.

        Raises:
            ConfigError: there are blobs, and nothing was ever written down.
        """
        entries = await self._commits.read(lambda catalogue: catalogue.audit.entries(0, 1))
        if not entries and await asyncio.to_thread(lambda: any(True for _ in self._blobs.digests())):
            raise ConfigError(
                "The database is empty but the store holds blobs: hotset.db was lost. "
                "Restore it from a backup, or move the folder blobs/ away to begin anew."
            )

    async def verify_store(self, actor: Actor, report: Report = silent) -> StoreVerdict:
        """Hash every blob, and look for those that versions name.

        Raises:
            PermissionDeniedError: the actor is neither admin nor reviewer.
        """
        actor.require("admin", "reviewer")
        named = await self._commits.read(lambda catalogue: catalogue.versions.named_blobs())
        return await asyncio.to_thread(self._hash_all, named, report)

    async def audit_entries(self, actor: Actor, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return audit entries numbered above `after`, oldest first, at most `limit` (1 to 1000).

        Raises:
            PermissionDeniedError: the actor is neither admin nor reviewer.
        """
        actor.require("admin", "reviewer")
        bounded = max(1, min(limit, AUDIT_LIMIT_MAX))
        return await self._commits.read(lambda catalogue: catalogue.audit.entries(after, bounded))

    async def verify_audit(self, actor: Actor) -> AuditVerdict:
        """Walk the audit log's chain of hashes.

        Raises:
            PermissionDeniedError: the actor is neither admin nor reviewer.
        """
        actor.require("admin", "reviewer")
        return await self._commits.read(lambda catalogue: catalogue.audit.verify())

    def _free(self, named: set[Digest], now_s: float | None) -> Freed:
        num_staging = self._staging.sweep(now_s) + self._blobs.sweep()
        freed = [self._blobs.delete(digest) for digest in list(self._blobs.digests()) if digest not in named]
        return Freed(len(freed), sum(freed), num_staging)

    def _hash_all(self, named: set[Digest], report: Report) -> StoreVerdict:
        present = list(self._blobs.digests())
        damaged: list[Digest] = []
        num_bytes = 0
        for done, digest in enumerate(present, start=1):
            try:
                num_bytes += self._blobs.verify(digest)
            except (DigestMismatchError, OSError):  # a link in its place and a bad sector, too
                damaged.append(digest)
            report(Progress("hash", done, len(present), "files", digest))
        missing = sorted(named - set(present))
        return StoreVerdict(len(present), num_bytes, tuple(damaged), tuple(missing))
