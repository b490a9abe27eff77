"""Counts agree with what they count, and no bound is passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.admission.in_flight import InFlight
from hotset.admission.outcomes import Outcome
from hotset.core.errors import TooManyRequestsError
from hotset.core.ids import TenantId

A, B = TenantId("acme"), TenantId("globex")


def test_a_tenant_at_its_bound_is_refused_and_others_are_not() -> None:
    counts = InFlight(total_max=10, per_tenant_max=2, retry_after_ms=250)
    counts.enter(A)
    counts.enter(A)
    with pytest.raises(TooManyRequestsError) as caught:
        counts.enter(A)
    assert caught.value.retry_after_ms == 250
    counts.enter(B)
    assert (counts.total, counts.of(A), counts.of(B)) == (3, 2, 1)
    counts.leave(A)
    counts.enter(A)
    counts.check()


def test_the_server_at_its_bound_refuses_every_tenant() -> None:
    counts = InFlight(total_max=2, per_tenant_max=2)
    counts.enter(A)
    counts.enter(B)
    for tenant in (A, B, TenantId("initech")):
        with pytest.raises(TooManyRequestsError):
            counts.enter(tenant)
    assert counts.total == 2


def test_leaving_without_having_entered_is_a_bug() -> None:
    counts = InFlight(total_max=2, per_tenant_max=2)
    with pytest.raises(AssertionError):
        counts.leave(A)


@given(st.lists(st.tuples(st.sampled_from([A, B, TenantId("initech")]), st.booleans()), max_size=60))
def test_any_sequence_keeps_the_totals(steps: list[tuple[TenantId, bool]]) -> None:
    counts = InFlight(total_max=5, per_tenant_max=3)
    model: dict[TenantId, int] = {}
    for tenant, enters in steps:
        if enters:
            fits = sum(model.values()) < 5 and model.get(tenant, 0) < 3
            if fits:
                counts.enter(tenant)
                model[tenant] = model.get(tenant, 0) + 1
            else:
                with pytest.raises(TooManyRequestsError):
                    counts.enter(tenant)
        elif model.get(tenant, 0):
            counts.leave(tenant)
            model[tenant] -= 1
        counts.check()
        assert counts.total == sum(model.values())
        assert all(counts.of(name) == count for name, count in model.items())


def test_outcomes_are_five_words() -> None:
    assert [outcome.value for outcome in Outcome] == ["completed", "cancelled", "refused", "accepted", "failed"]
