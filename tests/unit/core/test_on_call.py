"""What several processes did, put together as if one had done it."""

import math
import random

from hotset.core.on_call import Activity, Unreached, merged
from hotset.core.time_counts import bucket_of, merged_counts, quantile


def counts_of(times: list[float]) -> dict[int, int]:
    return merged_counts({bucket_of(seconds): 1} for seconds in times)


def nearest_rank(times: list[float], share: float) -> float:
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


def test_quantiles_of_merged_counts_are_those_of_all_times_together_to_one_percent() -> None:
    rng = random.Random(7)
    fast = [rng.uniform(0.01, 0.05) for _ in range(900)]
    slow = [rng.uniform(1.0, 4.0) for _ in range(100)]
    together = merged_counts((counts_of(fast), counts_of(slow)))
    for share in (0.0, 0.5, 0.89, 0.95, 0.99, 1.0):
        exact = nearest_rank(fast + slow, share)
        assert abs(quantile(together, share) - exact) <= 0.0101 * exact
    # The mean of the two 95th percentiles would be off by far.
    mean = (quantile(counts_of(fast), 0.95) + quantile(counts_of(slow), 0.95)) / 2
    assert abs(mean - nearest_rank(fast + slow, 0.95)) > 0.3


def test_no_time_at_all_counts_as_a_very_short_one() -> None:
    assert 0 < quantile({bucket_of(0.0): 1}, 0.5) < 2e-6


def test_activities_add_up_and_the_oldest_of_those_who_wait_is_the_oldest_of_all() -> None:
    gateway = Activity(in_flight=3, per_minute={"requests": 10, "refusals": 1}, first_tokens={"acme": {5: 2}})
    other = Activity(in_flight=1, per_minute={"requests": 5}, first_tokens={"acme": {5: 1, 9: 1}, "birch": {1: 1}})
    worker = Activity(per_minute={"loads": 4}, queue={"hot": (1, 0.5), "loading": (2, 3.0)}, batching=(6.0, 10.0))
    second = Activity(per_minute={"loads": 1}, queue={"loading": (1, 9.0)}, batching=(3.0, 2.0))
    all_of_them = merged((gateway, other, worker, second))
    assert all_of_them.in_flight == 4
    assert all_of_them.per_minute == {"requests": 15, "refusals": 1, "loads": 5}
    assert all_of_them.first_tokens == {"acme": {5: 3, 9: 1}, "birch": {1: 1}}
    assert all_of_them.queue == {"hot": (1, 0.5), "loading": (3, 9.0)}
    assert all_of_them.batch_efficiency == 9.0 / 12.0
    assert list(all_of_them.first_token_quantiles((0.5,))) == ["acme", "birch"]
    assert merged(()) == Activity()
    assert Activity().batch_efficiency is None


def test_who_was_not_reached_is_said_in_words() -> None:
    assert str(Unreached("gateway", "g2", "not linked to control")) == "gateway g2: not linked to control"
