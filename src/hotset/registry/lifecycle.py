"""The life of a version as one table: in which state which verb may be done, and what comes of it.

All of it is in the table; nothing here knows why a verb is done. An unlisted step raises and changes nothing.
A retired or rejected version never serves again: from there no verb leads anywhere.

Until rollouts exist, ``promote`` also leads from approved straight to active. What promote does to the version that was
active is the verb ``supersede``; what undo does to the one that stands by is ``reinstate``.
"""

from collections.abc import Mapping
from enum import StrEnum

from hotset.core.errors import IllegalTransitionError


class VersionState(StrEnum):
    """How far a version has come."""

    #: Its bytes are in the store, unproven.
    PUBLISHED = "published"
    #: `verify` admitted it.
    VERIFIED = "verified"
    #: Its numbers are finite and stable on an engine of its own.
    PROVED = "proved"
    #: A reviewer signed it.
    APPROVED = "approved"
    #: It serves a part of the adapter's requests.
    CANARY = "canary"
    #: It serves the adapter's requests.
    ACTIVE = "active"
    #: A newer version is active; this one stays warm for undo.
    STANDBY = "standby"
    #: It takes no request any more; its leases finish.
    DRAINING = "draining"
    #: It never serves again.
    RETIRED = "retired"
    #: It was refused by a check or a person, and never serves.
    REJECTED = "rejected"
    #: It was taken back from canary or active; a new canary may start.
    ROLLED_BACK = "rolled_back"


class VersionVerb(StrEnum):
    """What may be done to a version; none of these loads anything."""

    #: `registry.verify` admitted the stored bytes.
    VERIFY = "verify"
    #: `registry.fingerprint` judged its scores.
    PROVE = "prove"
    #: A reviewer signed.
    APPROVE = "approve"
    #: A rollout begins.
    START_CANARY = "start_canary"
    #: It becomes the adapter's active version.
    PROMOTE = "promote"
    #: Another version was promoted in its place.
    SUPERSEDE = "supersede"
    #: A rollout is called off, or the active version is taken back.
    UNDO = "undo"
    #: It stood by and becomes active again, because the version after it was undone.
    REINSTATE = "reinstate"
    #: It takes no request any more.
    DRAIN = "drain"
    #: Its last lease ended, or it is given up before it ever served.
    RETIRE = "retire"
    #: A check failed, or a person refused it.
    REJECT = "reject"


_TABLE: Mapping[VersionState, Mapping[VersionVerb, VersionState]] = {
    VersionState.PUBLISHED: {
        VersionVerb.VERIFY: VersionState.VERIFIED,
        VersionVerb.REJECT: VersionState.REJECTED,
    },
    VersionState.VERIFIED: {
        VersionVerb.PROVE: VersionState.PROVED,
        VersionVerb.REJECT: VersionState.REJECTED,
    },
    VersionState.PROVED: {
        VersionVerb.APPROVE: VersionState.APPROVED,
        VersionVerb.REJECT: VersionState.REJECTED,
    },
    VersionState.APPROVED: {
        VersionVerb.START_CANARY: VersionState.CANARY,
        VersionVerb.PROMOTE: VersionState.ACTIVE,
        VersionVerb.RETIRE: VersionState.RETIRED,
    },
    VersionState.CANARY: {
        VersionVerb.PROMOTE: VersionState.ACTIVE,
        VersionVerb.UNDO: VersionState.ROLLED_BACK,
    },
    VersionState.ACTIVE: {
        VersionVerb.SUPERSEDE: VersionState.STANDBY,
        VersionVerb.UNDO: VersionState.ROLLED_BACK,
        VersionVerb.DRAIN: VersionState.DRAINING,
    },
    VersionState.STANDBY: {
        VersionVerb.PROMOTE: VersionState.ACTIVE,
        VersionVerb.REINSTATE: VersionState.ACTIVE,
        VersionVerb.DRAIN: VersionState.DRAINING,
    },
    VersionState.DRAINING: {
        VersionVerb.RETIRE: VersionState.RETIRED,
    },
    VersionState.RETIRED: {},
    VersionState.REJECTED: {},
    VersionState.ROLLED_BACK: {
        VersionVerb.START_CANARY: VersionState.CANARY,
        VersionVerb.RETIRE: VersionState.RETIRED,
    },
}

#: A version is born in this state, by the verb ``publish``.
INITIAL_STATE = VersionState.PUBLISHED
#: States in which a route may lead to a version.
SERVING_STATES = frozenset((VersionState.CANARY, VersionState.ACTIVE, VersionState.STANDBY))
#: States in which a version's bytes may be loaded; a draining one finishes its leases.
LOADABLE_STATES = SERVING_STATES | {VersionState.DRAINING}
#: States that nothing leaves.
FINAL_STATES = frozenset(state for state, steps in _TABLE.items() if not steps)


def step_state(state: VersionState, verb: VersionVerb) -> VersionState:
    """Return the state that a verb leads to.

    Raises:
        IllegalTransitionError: the table has no such step; nothing changes.
    """
    steps = _TABLE[state]
    if verb in steps:
        return steps[verb]
    possible = ", ".join(steps) or "nothing"
    message = f"A version that is {state} can't take the step {verb}; possible is: {possible}."
    raise IllegalTransitionError(message)


def render_table() -> str:
    """Return the table as Markdown: a row for each state, its verbs and where they lead."""
    rows = ["| state | verb | becomes |", "|---|---|---|"]
    for state, steps in _TABLE.items():
        rows += [f"| {state} | {verb} | {target} |" for verb, target in steps.items()] or [f"| {state} | | |"]
    return "\n".join(rows) + "\n"
