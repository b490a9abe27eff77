import pytest

from hotset.bench.stats import median, percentile, ratio, spread


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (99.5, 100), (100, 100), (1, 1), (0.1, 1)])
def test_percentile_is_the_nearest_rank_of_the_samples(percent: float, expected: int) -> None:
    samples = [float(value) for value in range(100, 0, -1)]
    assert percentile(samples, percent) == expected


def test_percentile_of_one_sample_is_that_sample() -> None:
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0


@pytest.mark.parametrize(("samples", "percent"), [([], 50.0), ([1.0], 0.0), ([1.0], 101.0)])
def test_percentile_refuses_what_has_none(samples: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(samples, percent)


def test_median_takes_the_middle_or_the_mean_of_two() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_median_refuses_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_spread_holds_median_lowest_and_highest() -> None:
    taken = spread([5.0, 1.0, 3.0])
    assert taken is not None
    assert (taken.median, taken.low, taken.high, taken.rounds) == (3.0, 1.0, 5.0, 3)
    assert spread([]) is None


def test_ratio_is_taken_round_by_round() -> None:
    taken = ratio([10.0, 40.0], [1.0, 2.0])
    assert taken is not None
    assert (taken.low, taken.high) == (10.0, 20.0)
