"""Whose job a gateway runs next, and when it runs one more."""

import pytest

from hotset.admission.job_turns import may_start, next_job
from hotset.core.ids import JobId, TenantId

A, B = TenantId("a"), TenantId("b")
OLDEST = [(A, JobId("job_a")), (B, JobId("job_b"))]


@pytest.mark.parametrize(
    ("running", "running_max", "job"),
    [
        ({}, 4, "job_a"),
        ({A: 1}, 4, "job_b"),
        ({A: 2}, 4, "job_b"),
        ({A: 2, B: 1}, 4, None),
        ({A: 1, B: 1}, 4, "job_a"),
        ({}, 1, "job_a"),
        ({A: 1}, 1, None),
    ],
)
def test_the_tenant_with_fewest_running_is_next_and_leaves_as_much_as_it_holds(
    running: dict[TenantId, int], running_max: int, job: str | None
) -> None:
    assert next_job(OLDEST, running, running_max) == job


def test_no_job_is_next_where_there_is_none() -> None:
    assert next_job([], {}, 4) is None
    assert next_job(OLDEST[:1], {A: 2}, 4) is None


@pytest.mark.parametrize(
    ("num_running", "num_waiting", "yielded_s", "may"),
    [
        (0, 0, 0.0, True),
        (3, 0, 0.0, True),
        (4, 0, 0.0, False),
        (0, 1, 59.0, False),
        (0, 1, 60.0, True),
        (1, 1, 60.0, False),
    ],
)
def test_jobs_run_below_interactive_work_but_not_below_it_for_ever(
    num_running: int, num_waiting: int, yielded_s: float, *, may: bool
) -> None:
    found = may_start(
        num_running=num_running, running_max=4, num_waiting=num_waiting, yielded_s=yielded_s, yield_s_max=60.0
    )
    assert found is may
