"""What counts as the last minute, and what its quantiles are."""

from hotset.core.messages import StepFacts
from hotset.core.time_counts import quantile
from hotset.telemetry.batching import BatchEfficiency
from hotset.telemetry.windows import MinuteCount, RecentTimes


def test_every_time_of_the_last_minute_counts_and_older_ones_leave_by_slices() -> None:
    times = RecentTimes()
    for number in range(1, 101):
        times.add("acme", number / 100, now_s=number / 10)
    counts = times.counts(10.0)["acme"]
    assert sum(counts.values()) == 100
    assert abs(quantile(counts, 0.5) - 0.5) < 0.005
    assert abs(quantile(counts, 0.95) - 0.95) < 0.0095
    # At 65 s those of the first five seconds are gone.
    left = times.counts(65.0)["acme"]
    assert sum(left.values()) == 51
    assert abs(quantile(left, 0.0) - 0.5) < 0.006
    times.add("globex", 2.0, 65.0)
    times.forget("acme")
    assert {tenant: sum(found.values()) for tenant, found in times.counts(65.0).items()} == {"globex": 1}
    assert times.counts(200.0) == {}


def test_a_count_is_of_the_last_minute() -> None:
    count = MinuteCount()
    for second in range(120):
        count.add(second + 0.5)
        count.add(second + 0.9)
    assert count.count(119.9) == 120
    assert count.count(149.0) == 60
    assert count.count(1000.0) == 0


def test_efficiency_is_known_once_steps_of_the_same_size_were_seen_with_one_adapter_and_with_several() -> None:
    batching = BatchEfficiency()
    batching.add(StepFacts(0.5, 8, 0, 3))
    assert batching.ratio() is None
    batching.add(StepFacts(0.1, 8, 0, 1))
    batching.add(StepFacts(9.0, 8, 64, 1))  # reads a prompt
    batching.add(StepFacts(9.0, 0, 0, 0))
    batching.add(StepFacts(0.2, 9, 0, 3))  # of a size never seen with one
    assert batching.ratio() is None
    batching.add(StepFacts(0.2, 8, 0, 3))
    assert batching.ratio() == 0.5
    for _ in range(2000):
        batching.add(StepFacts(0.1, 8, 0, 2))
    assert round(batching.ratio() or 0.0, 3) == 1.0
