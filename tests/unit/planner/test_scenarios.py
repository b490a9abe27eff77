"""One simulated worker: a rotating tenant beside victims, and an engine that is asked for too much."""

import pytest

from hotset.core.ids import RequestId, TenantId
from hotset.planner.calibration import Calibration
from hotset.planner.fairness_scenario import Arrival, FairnessShape, bound, overload, simulate_sharing, widest_gap
from hotset.planner.one_worker import Served
from hotset.planner.rotation_scenario import RotationShape, simulate_rotation

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
    gaps = {}
    for is_fair in (True, False):
        served = simulate_sharing(shape, arrivals, is_fair=is_fair)
        assert len(served) == len(arrivals)
        gaps[is_fair] = widest_gap(served, max(each.asked_at_s for each in served))
    assert 0 < gaps[True] <= bound(shape, arrivals) < gaps[False]


def served(tenant: TenantId, asked_at_s: float, dispatched_at_s: float | None, *token_at_s: float) -> Served:
    return Served(RequestId("r"), tenant, 10, asked_at_s, dispatched_at_s, token_at_s=list(token_at_s))


def test_the_gap_counts_prompts_and_tokens_while_both_wait() -> None:
    # Both wait from 1 to 5: acme's two prompts (10 each) and three tokens (2 each) come in it, of globex nothing.
    requests = [
        served(ACME, 0.0, 2.0, 3.0, 3.5, 4.0, 6.0),
        served(ACME, 0.0, 5.0),
        served(GLOBEX, 1.0, None),
    ]
    assert widest_gap(requests, 9.0) == 26.0


def test_there_is_no_gap_where_the_two_never_wait_together() -> None:
    assert widest_gap([served(ACME, 0.0, 2.0, 3.0), served(GLOBEX, 2.0, 4.0)], 9.0) == 0.0
