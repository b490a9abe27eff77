from collections.abc import Sequence

import pytest

from hotset.bench.replay_policies import POLICIES, Belady, DecayedLfu, Lru, ReplayPolicy, StaticTopK, next_uses
from hotset.bench.workloads import Request, Workload
from tests.support.fake_clock import FakeClock

LETTERS = "ABACBAC"


def hits(policy: ReplayPolicy, adapters: Sequence[str] = LETTERS) -> str:
    """Ask once a second; a hit is shown by its letter, a load by a point."""
    return "".join(
        adapter if policy.ask(float(at_s), "tenant", adapter) else "." for at_s, adapter in enumerate(adapters)
    )


def test_lru_evicts_what_was_asked_for_longest_ago() -> None:
    assert hits(Lru(2)) == "..A...."
    assert hits(Lru(3)) == "..A.BAC"


def test_static_top_k_pins_all_but_one_slot() -> None:
    assert hits(StaticTopK(LETTERS, 2)) == "..A..A."  # A is pinned; B and C take turns
    assert hits(StaticTopK("ABBC", 1), "ABBC") == "..B."  # nothing is pinned
    assert hits(StaticTopK(LETTERS, 4)) == "..A.BAC"


def test_belady_evicts_what_is_asked_for_last() -> None:
    assert hits(Belady(LETTERS, 2)) == "..A.B.C"
    assert hits(Belady("ABCAB", 2), "ABCAB") == "...A."


def test_belady_refuses_another_trace_than_was_foretold() -> None:
    policy = Belady("AB", 2)
    policy.ask(0.0, "tenant", "A")
    with pytest.raises(ValueError, match="request 1 asks for C"):
        policy.ask(1.0, "tenant", "C")
    policy.ask(1.0, "tenant", "B")
    with pytest.raises(ValueError, match="request 2"):
        policy.ask(2.0, "tenant", "B")


def test_decayed_lfu_without_decay_evicts_what_was_asked_for_least() -> None:
    assert hits(DecayedLfu(2, half_life_s=1e9)) == "..A..A."


def test_decayed_lfu_with_a_short_half_life_is_lru() -> None:
    trace = "ABACBACCABBBDACDDBA"
    assert hits(DecayedLfu(2, half_life_s=0.1), trace) == hits(Lru(2), trace)


def test_decayed_lfu_lets_old_fame_fade() -> None:
    trace = "AAAA" + "BCBCBC"
    assert hits(DecayedLfu(2, half_life_s=1e9), trace) == ".AAA......"
    assert hits(DecayedLfu(2, half_life_s=1.0), trace) == ".AAA..BCBC"


def test_decayed_lfu_counts_for_days_without_leaving_the_range_of_floats() -> None:
    policy = DecayedLfu(1, half_life_s=1.0)
    assert not policy.ask(1e7, "tenant", "A")
    assert policy.ask(2e7, "tenant", "A")


def test_next_uses_are_positions_and_the_length_where_there_is_none() -> None:
    assert next_uses(list(LETTERS)) == [2, 4, 5, 6, 7, 7, 7]
    assert next_uses([]) == []


def test_every_policy_of_the_registry_starts_empty_and_hits_what_it_just_loaded() -> None:
    twice = tuple(Request(float(at_s), "t", "A", 1, 1) for at_s in range(2))
    for make in POLICIES.values():
        assert hits(make(Workload("twice", twice), 1, FakeClock()), "AA") == ".A"


def with_sight(policy: ReplayPolicy, adapters: str, num_seen: int) -> str:
    """Ask as `hits` does, with the next few requests in sight."""
    told = ""
    for at_s, adapter in enumerate(adapters):
        for seen in adapters[:num_seen] if at_s == 0 else adapters[at_s + num_seen - 1 : at_s + num_seen]:
            policy.see(float(at_s), seen)
        told += adapter if policy.ask(float(at_s), "tenant", adapter) else "."
    return told


def test_what_is_in_sight_is_not_evicted_unless_all_is() -> None:
    trace = "ABCABCABC"
    assert hits(Lru(2), trace) == "........."
    assert with_sight(Lru(2), trace, 2) == "...A.C.B."
    assert with_sight(Lru(2), trace, 9) == hits(Belady(trace, 2), trace)
    assert with_sight(DecayedLfu(2), trace, 9) == hits(Belady(trace, 2), trace)


def test_hotset_sees_what_waits_and_times_its_decisions() -> None:
    trace = "ABCABCABC"
    requests = tuple(Request(float(at_s), "t", name, 1, 1) for at_s, name in enumerate(trace))
    unsighted, sighted = (POLICIES["hotset"](Workload("w", requests), 2, FakeClock()) for _ in range(2))
    num_hits = len(hits(unsighted, trace).replace(".", ""))
    assert len(with_sight(sighted, trace, 9).replace(".", "")) > num_hits
    assert with_sight(POLICIES["hotset"](Workload("w", requests), 2, FakeClock()), trace, 9) == hits(
        Belady(trace, 2), trace
    )
    # Two a request, one more where it is seen before, one more a load and a further one where something has to leave.
    assert len(unsighted.decisions_s) == 2 * len(trace) + 2 * (len(trace) - num_hits) - 2
    assert len(sighted.decisions_s) == 3 * len(trace) + 2 * (len(trace) - 3) - 2
