"""Which number of distinct adapters pays."""

import pytest

from hotset.admission.profitable import profitable_adapters


@pytest.mark.parametrize(
    ("rates", "number"),
    [
        ({}, None),
        ({1: 100.0}, 1),
        ({1: 100.0, 2: 98.0, 4: 90.0, 8: 81.0}, 8),
        ({1: 100.0, 2: 90.0, 4: 79.0, 8: 40.0}, 2),
        ({1: 100.0, 2: 60.0, 4: 85.0}, 4),
        ({1: 50.0, 2: 100.0, 4: 81.0}, 4),
        ({1: 0.0, 2: 0.0}, 2),
    ],
)
def test_the_largest_number_within_a_fifth_of_the_best_rate(rates: dict[int, float], number: int | None) -> None:
    assert profitable_adapters(rates) == number
