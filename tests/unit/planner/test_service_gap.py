"""How far apart two tenants' service is while both wait, by hand."""

from hotset.core.ids import RequestId, TenantId
from hotset.planner.one_worker import Served
from hotset.planner.service_gap import Gap, bound, courses, gaps

ACME, GLOBEX = TenantId("acme"), TenantId("globex")


def served(
    tenant: TenantId,
    asked_at_s: float,
    dispatched_at_s: float | None,
    *token_at_s: float,
    hot_at_s: float | None = None,
) -> Served:
    """Return a request of 10 prompt tokens; its version was in its slot when it was asked, unless said otherwise."""
    if hot_at_s is None and dispatched_at_s is not None:
        hot_at_s = asked_at_s
    return Served(
        RequestId("r"), tenant, 10, 5, asked_at_s, hot_at_s, dispatched_at_s=dispatched_at_s, token_at_s=[*token_at_s]
    )


def gaps_of(*requests: Served) -> list[Gap]:
    """Return the gaps until 9, where the queue allows 100 and the worker does 10 a second."""
    return list(gaps(courses(requests, 9.0), 100.0, 10.0))


def test_the_gap_counts_prompts_and_tokens_while_both_wait() -> None:
    # Both wait from 1 to 5: acme's two prompts (10 each) and three tokens (2 each) come in it, of globex nothing.
    found = gaps_of(
        served(ACME, 0.0, 2.0, 3.0, 3.5, 4.0, 6.0),
        served(ACME, 0.0, 5.0),
        served(GLOBEX, 1.0, None),
    )
    assert found == [Gap(26.0, 100.0)]
    assert found[0].share == 0.26


def test_there_is_no_gap_where_the_two_never_wait_together() -> None:
    assert gaps_of(served(ACME, 0.0, 2.0, 3.0), served(GLOBEX, 2.0, 4.0)) == []
    assert gaps_of() == []


def test_what_comes_at_once_is_set_off() -> None:
    requests = [served(ACME, 0.0, 2.0), served(ACME, 0.0, 4.0), served(GLOBEX, 0.0, 2.0), served(GLOBEX, 0.0, 4.0)]
    assert gaps_of(*requests) == [Gap(0.0, 100.0)]


def test_a_request_that_was_refused_waits_no_longer() -> None:
    gone = served(GLOBEX, 0.0, None)
    gone.ended_at_s = 1.5
    assert gaps_of(served(ACME, 0.0, 2.0), served(ACME, 0.0, 5.0), gone) == [Gap(0.0, 100.0)]


def test_each_time_that_both_wait_is_a_span_of_its_own() -> None:
    found = gaps_of(
        served(ACME, 0.0, 1.0),
        served(ACME, 2.0, 3.0),
        served(ACME, 4.0, 5.0),
        served(GLOBEX, 0.5, 2.5),
        served(GLOBEX, 6.0, 7.0),
    )
    assert [gap.width for gap in found] == [10.0, 10.0]


def test_the_bound_grows_by_what_the_worker_does_while_either_waits_for_slots_alone() -> None:
    # Globex's versions are in their slots from 3 on; acme has 14 by then, and globex its two prompts at once.
    found = gaps_of(
        served(ACME, 0.0, 1.0, 2.0, 4.0),
        served(ACME, 0.0, 6.0),
        served(GLOBEX, 0.5, 5.0, hot_at_s=3.0),
        served(GLOBEX, 1.0, 5.0, hot_at_s=4.0),
    )
    assert found == [Gap(20.0, 100.0 + 10.0 * 2.5)]


def test_one_that_gets_no_place_is_in_the_queue_from_the_last_on_that_got_one() -> None:
    # Of globex nothing was in the queue from 1 to 4.5: what never got a place would have had it before the other.
    found = gaps_of(
        served(ACME, 0.0, 1.0),
        served(ACME, 0.0, 8.0),
        served(GLOBEX, 1.0, 5.0, hot_at_s=4.5),
        served(GLOBEX, 1.0, None),
    )
    assert found == [Gap(10.0, 100.0 + 10.0 * 3.5)]


def test_the_bound_is_the_theorems() -> None:
    assert bound(8, 100, 50) == 2 * 2 * 8 * 50
    assert bound(1, 1000, 1) == 2 * 1000
