"""Belady's policy is what it is said to be: nobody does better, not even every possible choice tried."""

from collections.abc import Sequence
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.bench.replay_policies import POLICIES, Belady, ReplayPolicy, next_uses
from hotset.bench.workloads import Request, Workload
from tests.support.fake_clock import FakeClock

TRACES = st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=60)
SLOTS = st.integers(1, 5)


def num_hits(policy: ReplayPolicy, adapters: Sequence[str]) -> int:
    return sum(policy.ask(float(at_s), f"of-{adapter}", adapter) for at_s, adapter in enumerate(adapters))


@settings(max_examples=50, deadline=None)
@given(TRACES, SLOTS)
def test_no_policy_hits_more_than_belady(adapters: list[str], num_slots: int) -> None:
    workload = Workload("t", tuple(Request(float(n), f"of-{name}", name, 1, 1) for n, name in enumerate(adapters)))
    hits = {name: num_hits(make(workload, num_slots, FakeClock()), adapters) for name, make in POLICIES.items()}
    assert max(hits.values()) == hits["belady"]


@settings(max_examples=50)
@given(st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=12), st.integers(1, 3))
def test_belady_is_the_best_of_all_choices(adapters: list[str], num_slots: int) -> None:
    @cache
    def best(position: int, resident: frozenset[str]) -> int:
        if position == len(adapters):
            return 0
        asked = adapters[position]
        if asked in resident:
            return 1 + best(position + 1, resident)
        if len(resident) < num_slots:
            return best(position + 1, resident | {asked})
        return max(best(position + 1, resident - {victim} | {asked}) for victim in resident)

    assert num_hits(Belady(adapters, num_slots), adapters) == best(0, frozenset())


@given(st.lists(st.sampled_from("ABCDEF"), max_size=60))
def test_next_uses_are_those_found_by_looking_ahead(adapters: list[str]) -> None:
    expected = [
        next((later for later in range(position + 1, len(adapters)) if adapters[later] == adapter), len(adapters))
        for position, adapter in enumerate(adapters)
    ]
    assert next_uses(adapters) == expected
