"""Commands that keep bytes from being served: quarantine, release, ban.

A quarantine is a hold beside a version's state and changes none: while it stands no version of these bytes is routed or
loaded, and no version of them takes a step towards serving. Release lifts it, and every version is what its state says,
as others may have changed it meanwhile. A ban is for ever.
"""

from collections import Counter

from hotset.control.actors import WATCHDOG, Actor, Separation
from hotset.control.commits import Change, Commits
from hotset.control.versions import give_up, need_version
from hotset.core.errors import ConflictError, InvalidRequestError
from hotset.core.fleet import FlawCode
from hotset.core.ids import VersionRef
from hotset.core.ports import Withdrawal
from hotset.registry.lifecycle import FINAL_STATES
from hotset.storage.rows import VersionRow

_REASON_CHARS_MAX = 500


class Withholding:
    """What may not be served: one method a command."""

    def __init__(self, commits: Commits, separation: Separation) -> None:
        self._commits = commits
        self._separation = separation
        #: Since control's start, by whom: operator or watchdog.
        self.num_quarantines: Counter[str] = Counter()

    async def quarantine(self, actor: Actor, ref: VersionRef, reason: str, *, cut: bool = False) -> VersionRow:
        """Hold a version's bytes back until they are released; quarantined again, the newer reason counts.

        What runs on them finishes, or ends at once with `cut`; what waits is refused.

        Raises:
            PermissionDeniedError: the actor is neither reviewer, deployer nor admin.
            NotFoundError: there is no such version.
            InvalidRequestError: no reason is given.
            ConflictError: the bytes are banned.
        """
        actor.require("reviewer", "deployer")
        check_reason(reason)
        row = await self._commits.run(actor, lambda change: _hold(change, ref, reason, code="operator", cut=cut))
        self.num_quarantines["operator"] += 1
        return row

    async def suspect(self, ref: VersionRef, worker: str, flaw: FlawCode) -> None:
        """Quarantine a version on the word of a worker's watchdog, and end what runs on it.

        Raises:
            NotFoundError: there is no such version.
            ConflictError: the bytes are banned.
        """
        reason = f"the engine of worker {worker} went wrong after it was loaded ({flaw})"
        await self._commits.run(WATCHDOG, lambda change: _hold(change, ref, reason, code=flaw, cut=True))
        self.num_quarantines["watchdog"] += 1

    async def release(self, actor: Actor, ref: VersionRef, reason: str) -> VersionRow:
        """Lift the quarantine of a version's bytes; no version's state changes by it.

        Args:
            actor: A reviewer who did not publish the version, unless this is a one-person install.
            ref: The version; every version of its bytes is released with it.
            reason: Why it is sound after all.

        Raises:
            PermissionDeniedError: the actor is no reviewer, or published the version.
            NotFoundError: there is no such version.
            InvalidRequestError: no reason is given.
            ConflictError: it is not quarantined.
        """
        actor.require("reviewer")
        check_reason(reason)

        def act(change: Change) -> VersionRow:
            row = need_version(change.catalogue, ref)
            self._separation.check(actor, row, "release")
            if not row.is_quarantined:
                raise ConflictError(f"{ref} is not quarantined.")
            change.catalogue.trust.lift_quarantine(row.digest)
            _remark(change, row, f"released: {reason}")
            change.audit("version.release", ref, digest=row.digest, reason=reason)
            return need_version(change.catalogue, ref)

        return await self._commits.run(actor, act)

    async def ban(self, actor: Actor, ref: VersionRef, reason: str) -> VersionRow:
        """Ban a version's digest for ever: never accepted or loaded anywhere. Every version of it is given up.

        What runs on it ends at once (I11).

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such version.
            InvalidRequestError: no reason is given.
        """
        actor.require("admin")
        check_reason(reason)

        def act(change: Change) -> VersionRow:
            row = need_version(change.catalogue, ref)
            change.catalogue.trust.add_ban(row.digest, reason, actor=actor.name, now_s=change.now_s)
            for same in change.catalogue.versions.with_digest(row.digest):
                if same.state not in FINAL_STATES:
                    give_up(change, same, reason)
            change.audit("version.ban", ref, digest=row.digest, reason=reason)
            change.withdrawals.append(Withdrawal(digest=row.digest))
            return need_version(change.catalogue, ref)

        return await self._commits.run(actor, act)


def check_reason(reason: str) -> None:
    """Pass if the reason can stand in the audit log.

    Raises:
        InvalidRequestError: it is empty, too long, or not printable.
    """
    if not 1 <= len(reason) <= _REASON_CHARS_MAX or not reason.isprintable():
        raise InvalidRequestError("Say why, in 1 to 500 printable characters.", param="reason")


def _hold(change: Change, ref: VersionRef, reason: str, *, code: str, cut: bool) -> VersionRow:
    """Quarantine a version's bytes; `code` says for programs why: ``operator``, or what a watchdog found."""
    row = need_version(change.catalogue, ref)
    if row.is_banned:
        raise ConflictError(f"{ref} is banned, which is more.")
    change.catalogue.trust.quarantine(row.digest, reason, code=code, actor=change.actor.name, now_s=change.now_s)
    _remark(change, row, f"quarantined: {reason}")
    change.audit("version.quarantine", ref, digest=row.digest, reason=reason, code=code, cut=cut)
    if cut:
        change.withdrawals.append(Withdrawal(digest=row.digest))
    return need_version(change.catalogue, ref)


def _remark(change: Change, row: VersionRow, remark: str) -> None:
    """Write a remark into the history of every version of the same bytes whose life goes on."""
    for same in change.catalogue.versions.with_digest(row.digest):
        if same.state not in FINAL_STATES:
            change.catalogue.versions.remark(same, remark, actor=change.actor.name, now_s=change.now_s)
