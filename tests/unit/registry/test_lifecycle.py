"""The life-cycle table: listed steps lead where it says, every other step raises and changes nothing."""

import itertools

import pytest

from hotset.core.errors import IllegalTransitionError
from hotset.registry.lifecycle import (
    FINAL_STATES,
    INITIAL_STATE,
    LOADABLE_STATES,
    SERVING_STATES,
    VersionState,
    VersionVerb,
    render_table,
    step_state,
)

S, V = VersionState, VersionVerb

STEPS = {
    (S.PUBLISHED, V.VERIFY): S.VERIFIED,
    (S.PUBLISHED, V.REJECT): S.REJECTED,
    (S.VERIFIED, V.PROVE): S.PROVED,
    (S.VERIFIED, V.REJECT): S.REJECTED,
    (S.PROVED, V.APPROVE): S.APPROVED,
    (S.PROVED, V.REJECT): S.REJECTED,
    (S.APPROVED, V.START_CANARY): S.CANARY,
    (S.APPROVED, V.PROMOTE): S.ACTIVE,
    (S.APPROVED, V.RETIRE): S.RETIRED,
    (S.CANARY, V.PROMOTE): S.ACTIVE,
    (S.CANARY, V.UNDO): S.ROLLED_BACK,
    (S.ACTIVE, V.SUPERSEDE): S.STANDBY,
    (S.ACTIVE, V.UNDO): S.ROLLED_BACK,
    (S.ACTIVE, V.DRAIN): S.DRAINING,
    (S.STANDBY, V.PROMOTE): S.ACTIVE,
    (S.STANDBY, V.REINSTATE): S.ACTIVE,
    (S.STANDBY, V.DRAIN): S.DRAINING,
    (S.DRAINING, V.RETIRE): S.RETIRED,
    (S.ROLLED_BACK, V.START_CANARY): S.CANARY,
    (S.ROLLED_BACK, V.RETIRE): S.RETIRED,
}


@pytest.mark.parametrize(("state", "verb"), list(itertools.product(S, V)))
def test_each_state_and_verb(state: VersionState, verb: VersionVerb) -> None:
    if (state, verb) in STEPS:
        assert step_state(state, verb) is STEPS[state, verb]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{state} can't take the step {verb}"):
            step_state(state, verb)


def test_a_version_that_was_given_up_never_serves_again() -> None:
    assert frozenset((S.RETIRED, S.REJECTED)) == FINAL_STATES
    assert FINAL_STATES.isdisjoint(LOADABLE_STATES)
    assert SERVING_STATES < LOADABLE_STATES


def test_no_version_serves_unproved_or_unapproved() -> None:
    def reachable(without: VersionVerb) -> set[VersionState]:
        found, front = {INITIAL_STATE}, [INITIAL_STATE]
        while front:
            state = front.pop()
            for (source, verb), target in STEPS.items():
                if source is state and verb is not without and target not in found:
                    found.add(target)
                    front.append(target)
        return found

    assert reachable(V.SUPERSEDE) >= SERVING_STATES - {S.STANDBY}
    for verb in (V.VERIFY, V.PROVE, V.APPROVE):
        assert reachable(verb).isdisjoint(LOADABLE_STATES), verb


def test_the_table_can_be_printed() -> None:
    table = render_table()

    for (state, verb), target in STEPS.items():
        assert f"| {state} | {verb} | {target} |" in table
    assert table.count("\n") == 2 + len(STEPS) + len(FINAL_STATES)
