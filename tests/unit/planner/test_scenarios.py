"""One simulated worker: a rotating tenant beside victims, and an engine that is asked for too much."""

from dataclasses import replace

import pytest

from hotset.core.ids import TenantId
from hotset.planner.calibration import Calibration
from hotset.planner.fairness_scenario import Arrival, FairnessShape, overload, simulate_sharing
from hotset.planner.rotation_scenario import RotationShape, simulate_rotation
from hotset.planner.service_gap import bound, courses, gaps

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
SHAPE = RotationShape(seconds=15.0, warmup_s=3.0)


def test_more_sequences_take_longer_steps_and_prompts_add_to_them() -> None:
    times = Calibration(step_s=(0.02, 0.03), prompt_token_s=0.001)
    assert times.step(1, 0) == 0.02
    assert times.step(2, 10) == pytest.approx(0.04)
    assert times.step(4, 0) == pytest.approx(0.06)


def test_victims_inside_their_reserves_see_no_load_however_many_adapters_another_turns_over() -> None:
    control = simulate_rotation(SHAPE, 1, is_control=True)
    rotation = simulate_rotation(SHAPE, 1, is_control=False)
    assert len(rotation.first_token_s) == len(control.first_token_s) > 30
    assert max(rotation.first_token_s) <= 1.2 * max(control.first_token_s)
    assert not rotation.num_refused
    assert 0 < rotation.tokens_per_s < control.tokens_per_s


def loud_and_quiet() -> list[Arrival]:
    loud = [Arrival(0.01 * index, ACME, 10, 8) for index in range(400)]
    quiet = [Arrival(0.1 * index, GLOBEX, 10, 8) for index in range(40)]
    return sorted([*loud, *quiet], key=lambda arrival: (arrival.at_s, arrival.tenant))


def test_tenants_that_both_wait_are_served_alike_within_the_bound_and_not_first_come_first_served() -> None:
    shape = FairnessShape(sequences_max=2)
    arrivals = overload(loud_and_quiet(), shape, 3.0)
    assert shape.seconds_of(arrivals) == pytest.approx(3.0 * arrivals[-1].at_s)
    widths = {}
    for is_fair in (True, False):
        served = simulate_sharing(shape, arrivals, is_fair=is_fair)
        assert len(served) == len(arrivals)
        found = max(gaps(courses(served, max(each.asked_at_s for each in served)), bound(2, 10, 8), 1.0))
        assert found.allowed == bound(2, 10, 8)
        widths[is_fair] = found.width
    assert 0 < widths[True] <= bound(2, 10, 8) < widths[False]


def test_a_tenant_that_waits_for_loads_falls_behind_by_what_the_worker_does_meanwhile() -> None:
    """Globex turns over its one slot; a load takes as long as the engine needs for many tokens."""
    shape = FairnessShape(sequences_max=2, num_adapters=2, calibration=Calibration(cold_mb_s=0.5, warm_mb_s=0.5))
    arrivals = [
        replace(arrival, adapter=index % 2 if arrival.tenant == GLOBEX else 0)
        for index, arrival in enumerate(overload(loud_and_quiet(), shape, 3.0))
    ]
    served = simulate_sharing(shape, arrivals, is_fair=True)
    tenants = courses(served, arrivals[-1].at_s + served[0].asked_at_s)
    tokens_per_s = sum(amount for tenant in tenants for _, amount in tenant.services) / arrivals[-1].at_s
    gap = max(gaps(tenants, bound(2, 10, 8), tokens_per_s))
    assert bound(2, 10, 8) < gap.width <= gap.allowed
