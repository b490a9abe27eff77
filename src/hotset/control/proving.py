"""The command that proves a verified version on an engine of its own, before any shared worker sees it."""

import asyncio
import os
from pathlib import Path

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.progress import Report, silent
from hotset.control.prover import Proof, Prover
from hotset.control.versions import check_usable, enter, need_version
from hotset.core.errors import ConflictError, NotFoundError, ProofFailedError
from hotset.core.ids import VersionRef, engine_name
from hotset.core.messages import AdapterLoad
from hotset.registry.lifecycle import VersionState, VersionVerb, step_state
from hotset.storage.blobs import BlobStore
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import BaseRow, ProofRow, VersionRow
from hotset.storage.staging import Staging


class Proving:
    """Proofs: one method a command."""

    def __init__(self, commits: Commits, blobs: BlobStore, staging: Staging, prover: Prover) -> None:
        self._commits = commits
        self._blobs = blobs
        self._staging = staging
        self._prover = prover
        # One engine beside those that serve is as much as a machine is asked to bear.
        self._turn = asyncio.Lock()

    async def prove(self, actor: Actor, ref: VersionRef, report: Report = silent) -> VersionRow:
        """Load the version into an engine of its own, run the probe set, judge, and record the outcome.

        A failed proof rejects the version, with the reason. An engine that does not come up proves nothing, and
        the version stays as it is.

        Raises:
            PermissionDeniedError: the actor is neither publisher nor reviewer.
            NotFoundError: there is no such version.
            IllegalTransitionError: it is not in state `verified`.
            ConflictError: it is banned, quarantined or purged.
            DigestMismatchError: its stored bytes fail their check.
            ProofFailedError: its numbers are not finite and stable; it is now `rejected`.
            EngineUnavailableError: no engine came up.
        """
        actor.require("publisher", "reviewer")
        return await asyncio.shield(asyncio.ensure_future(self._prove(actor, ref, report)))

    async def _prove(self, actor: Actor, ref: VersionRef, report: Report) -> VersionRow:
        async with self._turn:
            row, base = await self._commits.read(lambda catalogue: _ready(catalogue, ref))
            scratch = await asyncio.to_thread(self._staging.create_scratch)
            try:
                load = await asyncio.to_thread(self._lay_out, row, scratch)
                proof = await self._prover.prove(base.base, Path(base.folder), load, report)
            except ProofFailedError as failed:
                reason = failed.message
                await self._commits.run(actor, lambda change: _reject(change, ref, reason))
                raise
            finally:
                await asyncio.to_thread(self._staging.discard, scratch)
            return await self._commits.run(actor, lambda change: _accept(change, ref, proof))

    def _lay_out(self, row: VersionRow, scratch: Path) -> AdapterLoad:
        """Put the version's files, re-hashed, into a folder named after its engine name."""
        name = engine_name(row.record.route)
        assert name is not None, "a version's route is no base's"
        folder = scratch / name
        folder.mkdir(mode=0o700)
        for entry in row.manifest.files:
            self._blobs.copy_verified(entry.digest, folder / entry.name)
        return AdapterLoad(
            engine_name=name,
            folder=os.fspath(folder),
            files={entry.name: entry.digest for entry in row.manifest.files},
            modules=row.manifest.modules,
        )


def _ready(catalogue: Catalogue, ref: VersionRef) -> tuple[VersionRow, BaseRow]:
    row = need_version(catalogue, ref)
    check_usable(row)
    step_state(VersionState(row.state), VersionVerb.PROVE)
    base = catalogue.bases.by_digest(row.base)
    if base is None:
        raise NotFoundError(f"The base of {ref} is not registered.")
    return row, base


def _accept(change: Change, ref: VersionRef, proof: Proof) -> VersionRow:
    row = need_version(change.catalogue, ref)
    check_usable(row)
    enter(change, ref, step_state(VersionState(row.state), VersionVerb.PROVE))
    change.catalogue.trust.add_proof(
        ref,
        ProofRow(
            engine=proof.facts.engine,
            dtype=proof.facts.dtype,
            hardware_class=proof.facts.hardware_class,
            fingerprint_json=proof.fingerprint_json,
            at_s=change.now_s,
        ),
    )
    change.audit("version.prove", ref, engine=proof.facts.engine, dtype=proof.facts.dtype)
    return need_version(change.catalogue, ref)


def _reject(change: Change, ref: VersionRef, reason: str) -> None:
    row = need_version(change.catalogue, ref)
    if row.state != VersionState.VERIFIED:
        raise ConflictError(f"{ref} changed while it was being proved; it is {row.state} now.")
    enter(change, ref, step_state(VersionState.VERIFIED, VersionVerb.REJECT), reason)
    change.audit("version.reject", ref, reason=reason)
