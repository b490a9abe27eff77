"""Commands that decide what a verified version may do: approve, promote, retire, purge."""

import asyncio

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hotset.control.actors import Actor, Separation
from hotset.control.commits import Change, Commits
from hotset.control.pool_rules import check_may_roll_out
from hotset.control.versions import check_usable, enter, give_up, need_version
from hotset.core.errors import ConflictError
from hotset.core.ids import Digest, VersionRef
from hotset.core.ports import Withdrawal
from hotset.registry.approval import check_approval, sign_approval
from hotset.registry.fingerprint import Fingerprint
from hotset.registry.lifecycle import LOADABLE_STATES, VersionState, VersionVerb, step_state
from hotset.storage.blobs import BlobStore
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import VersionRow


class Approving:
    """What may be served: one method a command."""

    def __init__(
        self,
        commits: Commits,
        blobs: BlobStore,
        store_lock: asyncio.Lock,
        *,
        private_key: Ed25519PrivateKey,
        reviewer_keys: dict[str, Ed25519PublicKey],
        separation: Separation,
    ) -> None:
        self._commits = commits
        self._blobs = blobs
        self._store_lock = store_lock
        self._private_key = private_key
        self._reviewer_keys = reviewer_keys
        self._separation = separation

    async def get(self, ref: VersionRef) -> VersionRow:
        """Return a version.

        Raises:
            NotFoundError: there is no such version.
        """
        return await self._commits.read(lambda catalogue: need_version(catalogue, ref))

    async def approve(self, actor: Actor, ref: VersionRef, *, accept_unprovable: bool = False) -> VersionRow:
        """Sign that a proved version may be served.

        Args:
            actor: A reviewer who did not publish the version, unless this is a one-person install.
            ref: The version.
            accept_unprovable: Accept a version whose effect is too small to be told from noise.

        Raises:
            PermissionDeniedError: the actor is no reviewer, or published the version.
            NotFoundError: there is no such version.
            IllegalTransitionError: it is not in state `proved`.
            ApprovalInvalidError: the signing key is not among the reviewers' keys, or the record was tampered with.
            ConflictError: it is banned, quarantined or purged, or its effect is unprovable and that was not accepted.
        """
        actor.require("reviewer")

        def act(change: Change) -> VersionRow:
            row = need_version(change.catalogue, ref)
            check_usable(row)
            state = step_state(VersionState(row.state), VersionVerb.APPROVE)
            self._separation.check(actor, row, "approve")
            _check_effect(change.catalogue, row, accept_unprovable=accept_unprovable)
            approval = sign_approval(self._private_key, row.record)
            # A key that is no reviewer's any more signs nothing that would be served.
            check_approval(msgspec.structs.replace(row.record, approval=approval), self._reviewer_keys)
            change.catalogue.trust.add_approval(ref, approval, reviewer=actor.name, now_s=change.now_s)
            enter(change, ref, state)
            change.audit(
                "version.approve",
                ref,
                digest=row.digest,
                reviewer_key=approval.reviewer_key,
                accept_unprovable=accept_unprovable,
            )
            return need_version(change.catalogue, ref)

        return await self._commits.run(actor, act)

    async def promote(self, actor: Actor, ref: VersionRef) -> VersionRow:
        """Make an approved version the adapter's active one; the former active version stands by.

        Promoting the active version changes nothing.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            NotFoundError: there is no such version.
            IllegalTransitionError: its state does not allow it.
            ApprovalInvalidError: its approval does not cover exactly this version.
            ConflictError: it is banned, quarantined or purged, rollouts are frozen, or a pool takes no version of its
                rank, or no new ones at this time.
        """
        actor.require("deployer")

        def act(change: Change) -> VersionRow:
            row = need_version(change.catalogue, ref)
            check_usable(row)
            if row.state == VersionState.ACTIVE:
                return row
            check_may_roll_out(change.catalogue, row, change.now_s)
            state = step_state(VersionState(row.state), VersionVerb.PROMOTE)
            check_approval(row.record, self._reviewer_keys)
            former = _supersede(change, row)
            enter(change, ref, state)
            change.audit("version.promote", ref, former=former and str(former))
            return need_version(change.catalogue, ref)

        return await self._commits.run(actor, act)

    async def retire(self, actor: Actor, ref: VersionRef, *, cut: bool = False) -> VersionRow:
        """Give a version up for ever, whatever its state: retired, or rejected if nobody had approved it yet.

        Its running requests finish, or end at once with `cut`.

        Raises:
            PermissionDeniedError: the actor is neither deployer nor admin.
            NotFoundError: there is no such version.
            IllegalTransitionError: it is retired or rejected already.
        """
        actor.require("deployer")

        def act(change: Change) -> VersionRow:
            row = need_version(change.catalogue, ref)
            give_up(change, row, "retired by an operator")
            change.audit("version.retire", ref, cut=cut)
            if cut:
                change.withdrawals.append(Withdrawal(adapter=ref.adapter, digest=row.digest))
            return need_version(change.catalogue, ref)

        return await self._commits.run(actor, act)

    async def purge(self, actor: Actor, ref: VersionRef) -> VersionRow:
        """Erase a version's bytes and keep its record; bytes that another version names stay.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such version.
            ConflictError: it may still be served.
        """
        actor.require("admin")
        async with self._store_lock:
            row, unnamed = await self._commits.run(actor, lambda change: _purge(change, ref))
            await asyncio.to_thread(lambda: [self._blobs.delete(digest) for digest in unnamed])
        return row


def _check_effect(catalogue: Catalogue, row: VersionRow, *, accept_unprovable: bool) -> None:
    proofs = catalogue.trust.proofs(row.ref)
    if not proofs:
        raise ConflictError(f"{row.ref} has no proof on record; prove it first.")
    fingerprint = msgspec.json.decode(proofs[-1].fingerprint_json, type=Fingerprint)
    if not fingerprint.is_provable and not accept_unprovable:
        raise ConflictError(
            f"The effect of {row.ref} is too small to be told from the engine's noise (effect_unprovable). "
            "Approve it with accept_unprovable if that is as meant.",
            param="accept_unprovable",
        )


def _supersede(change: Change, row: VersionRow) -> VersionRef | None:
    """Let the adapter's active version stand by; return which it was."""
    for other in change.catalogue.versions.of_adapter(row.ref.adapter):
        if other.state == VersionState.ACTIVE:
            enter(change, other.ref, step_state(VersionState.ACTIVE, VersionVerb.SUPERSEDE))
            return other.ref
    return None


def _purge(change: Change, ref: VersionRef) -> tuple[VersionRow, list[Digest]]:
    """Record the purge; return the version and the blobs that nothing names any more."""
    row = need_version(change.catalogue, ref)
    if row.state in LOADABLE_STATES:
        raise ConflictError(f"{ref} is {row.state} and may be asked for; retire it first.")
    if row.purged_at_s is None:
        change.catalogue.trust.add_purge(ref, change.now_s)
        change.audit("version.purge", ref, digest=row.digest)
    named = change.catalogue.versions.named_blobs()
    unnamed = [entry.digest for entry in row.manifest.files if entry.digest not in named]
    return need_version(change.catalogue, ref), unnamed
