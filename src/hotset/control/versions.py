"""What every command on versions needs: to find one, to ask whether its bytes may be used, to put it into a state.

Which state follows which is the table of `registry.lifecycle`.
"""

from hotset.control.commits import Change
from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.ids import VersionRef
from hotset.registry.lifecycle import VersionState, VersionVerb, step_state
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import VersionRow

#: How a version is given up, from each state that is not final. Running requests hold leases of their own, and an
#: agent keeps a version's files until the last of them has ended; so draining needs no waiting here.
_RETIREMENT: dict[VersionState, tuple[VersionVerb, ...]] = {
    VersionState.PUBLISHED: (VersionVerb.REJECT,),
    VersionState.VERIFIED: (VersionVerb.REJECT,),
    VersionState.PROVED: (VersionVerb.REJECT,),
    VersionState.APPROVED: (VersionVerb.RETIRE,),
    VersionState.CANARY: (VersionVerb.UNDO, VersionVerb.RETIRE),
    VersionState.ACTIVE: (VersionVerb.DRAIN, VersionVerb.RETIRE),
    VersionState.STANDBY: (VersionVerb.DRAIN, VersionVerb.RETIRE),
    VersionState.DRAINING: (VersionVerb.RETIRE,),
    VersionState.ROLLED_BACK: (VersionVerb.RETIRE,),
}


def need_version(catalogue: Catalogue, ref: VersionRef) -> VersionRow:
    """Return the version, whatever its state.

    Raises:
        NotFoundError: there is no such version.
    """
    row = catalogue.versions.get(ref)
    if row is None:
        raise NotFoundError(f"There is no version {ref}; see `hotset adapter show {ref.adapter}`.", param="version")
    return row


def check_usable(row: VersionRow) -> None:
    """Pass if the version's digest is neither banned nor quarantined and its bytes are not erased.

    Raises:
        ConflictError: either is the case.
    """
    if row.is_banned:
        raise ConflictError(f"{row.ref} can't be served: its digest {row.digest} is banned.")
    if row.is_quarantined:
        raise ConflictError(f"{row.ref} is quarantined; a reviewer may release it.")
    if row.purged_at_s is not None:
        raise ConflictError(f"The bytes of {row.ref} were purged; publish them again.")


def enter(change: Change, ref: VersionRef, state: VersionState, reason: str = "") -> None:
    """Put the version into `state`, on behalf of the change's actor."""
    change.catalogue.versions.enter_state(ref, state, actor=change.actor.name, now_s=change.now_s, reason=reason)


def give_up(change: Change, row: VersionRow, reason: str) -> None:
    """Retire or reject the version, in as many steps as its state needs."""
    state = VersionState(row.state)
    for verb in _RETIREMENT.get(state, (VersionVerb.RETIRE,)):
        state = step_state(state, verb)
        enter(change, row.ref, state, reason)
