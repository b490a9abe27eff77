"""Commands that take an adapter in: verify, and publish as an immutable version.

Publishing: the upload is claimed → opened without following links → proved against the base by `registry.verify` → its
blobs ingested from the very files that were verified, and compared with the verdict's digests → one transaction writes
adapter, alias, version, files, states and audit. A crash before the commit leaves only blobs that nothing names.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hotset.control.actors import Actor
from hotset.control.bases import need_base
from hotset.control.commits import Change, Commits
from hotset.control.grants import check_alias_is_free
from hotset.control.progress import ByteCount, Progress, Report, silent
from hotset.control.tenants import need_tenant
from hotset.core.base import BaseVersion
from hotset.core.errors import ConflictError, DigestMismatchError, InvalidRequestError, VersionRefusedError
from hotset.core.ids import AdapterId, Alias, BaseName, VersionRef
from hotset.registry.artifact import Artifact
from hotset.registry.lifecycle import FINAL_STATES, INITIAL_STATE, VersionVerb, step_state
from hotset.registry.verify import OVERRIDES, VerifiedVersion, VerifyPolicy, verify
from hotset.storage.blobs import BlobStore
from hotset.storage.catalogue import Catalogue
from hotset.storage.folder import open_artifact
from hotset.storage.rows import GrantRow, VersionRow
from hotset.storage.staging import Staging


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be verified or published: an upload or, for a local caller, a folder on this machine."""

    base: BaseName
    #: None: the server's own limit. Publishing never goes above that.
    rank_max: int | None = None
    #: Of `registry.verify.OVERRIDES`.
    overrides: frozenset[str] = frozenset()
    upload: str | None = None
    folder: Path | None = None
    #: Names in the publisher's folder that were not uploaded, for the verdict's message alone.
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verify says of a submission; a refusal is an answer, not an error."""

    verified: VerifiedVersion | None
    refused: VersionRefusedError | None


@dataclass(frozen=True, slots=True)
class Published:
    """A version and whether the command made it."""

    row: VersionRow
    is_new: bool


class Publishing:
    """Taking adapters in: one method a command."""

    def __init__(
        self,
        commits: Commits,
        blobs: BlobStore,
        staging: Staging,
        store_lock: asyncio.Lock,
        policy: VerifyPolicy,
    ) -> None:
        self._commits = commits
        #: The server's own limits; overrides are each submission's.
        self._policy = policy
        self._blobs = blobs
        self._staging = staging
        #: Held from the first ingested blob to the commit, so that `store gc` never sees a blob between the two.
        self._store_lock = store_lock

    async def verify(self, actor: Actor, submission: Submission, report: Report = silent) -> Verdict:
        """Say whether an adapter would be admitted, and store nothing.

        Raises:
            PermissionDeniedError: the actor may not publish, or named a folder from afar.
            NotFoundError: no such base or upload.
        """
        base = await self._admit(actor, submission)
        rank_max = submission.rank_max or self._policy.rank_max
        policy = replace(self._policy, rank_max=rank_max, overrides=submission.overrides)
        return await asyncio.to_thread(self._judge, submission, base, policy, report)

    async def publish(
        self, actor: Actor, adapter: AdapterId, submission: Submission, report: Report = silent
    ) -> Published:
        """Publish an adapter as its next version, verified; the upload is used up.

        Where the same bytes are published already and neither rejected nor retired, that version is the answer, so a
        push that lost its answer can be repeated.

        Raises:
            PermissionDeniedError: the actor may not publish, or named a folder from afar.
            NotFoundError: no such owner, base or upload.
            ConflictError: the adapter's name or alias collides, or the bytes are banned.
            VersionRefusedError: `registry.verify` does not admit it.
            DigestMismatchError: the staged bytes changed between verification and storing.
        """
        base = await self._admit(actor, submission)
        await self._commits.read(lambda catalogue: _check_names(catalogue, adapter))
        # A caller that hangs up must not stop the work between blobs and commit.
        return await asyncio.shield(asyncio.ensure_future(self._publish(actor, adapter, submission, base, report)))

    async def _publish(
        self, actor: Actor, adapter: AdapterId, submission: Submission, base: BaseVersion, report: Report
    ) -> Published:
        rank_max = min(submission.rank_max or self._policy.rank_max, self._policy.rank_max)
        policy = replace(self._policy, rank_max=rank_max, overrides=submission.overrides)
        async with self._claimed(submission) as folder:
            verified = await asyncio.to_thread(_verify, folder, base, policy, submission.ignored, report)
            async with self._store_lock:
                await asyncio.to_thread(self._ingest, folder, verified, report)
                return await self._commits.run(actor, lambda change: _record(change, adapter, base, verified))

    async def _admit(self, actor: Actor, submission: Submission) -> BaseVersion:
        actor.require("publisher", "reviewer")
        if (submission.upload is None) == (submission.folder is None):
            raise InvalidRequestError("Name an upload or a folder, one of the two.", param="upload")
        if submission.folder is not None:
            actor.require_local()
        if not submission.overrides <= OVERRIDES:
            raise InvalidRequestError(f"Overrides are: {', '.join(sorted(OVERRIDES))}.", param="overrides")
        row = await self._commits.read(lambda catalogue: need_base(catalogue, submission.base))
        return row.base

    def _judge(self, submission: Submission, base: BaseVersion, policy: VerifyPolicy, report: Report) -> Verdict:
        folder = submission.folder or self._staging.upload_folder(submission.upload or "")
        try:
            verified = _verify(folder, base, policy, submission.ignored, report)
        except VersionRefusedError as refused:
            return Verdict(None, refused)
        return Verdict(verified, None)

    @asynccontextmanager
    async def _claimed(self, submission: Submission) -> AsyncGenerator[Path]:
        """Lend a folder that nobody else writes to; it is gone when the block ends."""
        folder = await asyncio.to_thread(self._claim, submission)
        try:
            yield folder
        finally:
            await asyncio.to_thread(self._staging.discard, folder)

    def _claim(self, submission: Submission) -> Path:
        if submission.folder is None:
            return self._staging.claim(submission.upload or "")
        scratch = self._staging.create_scratch()
        try:
            _copy_artifact(submission.folder, scratch)
        except BaseException:
            self._staging.discard(scratch)
            raise
        return scratch

    def _ingest(self, folder: Path, verified: VerifiedVersion, report: Report) -> None:
        files = verified.manifest.files
        for done, entry in enumerate(files, start=1):
            digest, size = self._blobs.ingest(folder / entry.name)
            if (digest, size) != (entry.digest, entry.size_bytes):
                raise DigestMismatchError(f"{entry.name} changed between verification and storing; push again.")
            report(Progress("store", done, len(files), "files", entry.name))


def _verify(
    folder: Path, base: BaseVersion, policy: VerifyPolicy, ignored: tuple[str, ...], report: Report
) -> VerifiedVersion:
    with open_artifact(folder) as artifact:
        total = sum(len(view) for view in artifact.files.values())
        count = ByteCount("verify", total, report)
        count(0)
        known = Artifact(artifact.files, (*artifact.ignored, *ignored))
        verified = verify(known, base, policy)
        count(total)
    return verified


def _copy_artifact(folder: Path, target: Path) -> None:
    """Copy what counts of a folder, by the bytes that were opened without following links."""
    with open_artifact(folder) as artifact:
        for name, view in artifact.files.items():
            (target / name).write_bytes(view)


def _check_names(catalogue: Catalogue, adapter: AdapterId) -> None:
    need_tenant(catalogue, adapter.owner)
    known = catalogue.adapters.by_folded_name(adapter)
    if known is not None and known.adapter != adapter:
        raise ConflictError(f"{adapter} differs only in case from {known.adapter}; take another name.", param="name")
    if known is None:
        check_alias_is_free(catalogue, GrantRow(adapter.owner, Alias(adapter.name), adapter, None, 0.0))


def _record(change: Change, adapter: AdapterId, base: BaseVersion, verified: VerifiedVersion) -> Published:
    """Write the version, or find the one that these bytes already are."""
    catalogue = change.catalogue
    _check_names(catalogue, adapter)
    digest = verified.digest
    if catalogue.trust.is_banned(digest):
        raise ConflictError(f"These bytes ({digest}) are banned.")
    for row in catalogue.versions.with_digest(digest):
        if row.ref.adapter == adapter and row.state not in FINAL_STATES and row.purged_at_s is None:
            return Published(row, is_new=False)
    if catalogue.adapters.get(adapter) is None:
        catalogue.adapters.add(adapter, change.now_s)
        catalogue.grants.add(GrantRow(adapter.owner, Alias(adapter.name), adapter, None, change.now_s))
        change.audit("adapter.add", adapter, alias=adapter.name)
    ref = VersionRef(adapter, catalogue.versions.next_number(adapter))
    actor = change.actor.name
    catalogue.versions.add(ref, base.digest, digest, verified.manifest, publisher=actor, now_s=change.now_s)
    for state in (INITIAL_STATE, step_state(INITIAL_STATE, VersionVerb.VERIFY)):
        catalogue.versions.enter_state(ref, state, actor=actor, now_s=change.now_s)
    change.audit("version.publish", ref, base=base.digest, digest=digest, overrides=list(verified.manifest.overrides))
    row = catalogue.versions.get(ref)
    assert row is not None, "just added"
    return Published(row, is_new=True)
