"""What terms may say."""

import math

import pytest

from hotset.core.errors import InvalidRequestError
from hotset.core.terms import BOUNDS, DEFAULT_TERMS, Terms, TermsChange, change_terms


def test_a_part_that_is_left_out_stays_and_none_is_the_default() -> None:
    terms = change_terms(DEFAULT_TERMS, {"requests_per_minute": 60.0, "first_token_budget_ms": 0})
    assert terms == Terms(requests_per_minute=60.0, first_token_budget_ms=0)
    assert change_terms(terms, {}) == terms
    assert change_terms(terms, {"requests_per_minute": None}) == Terms(first_token_budget_ms=0)


@pytest.mark.parametrize("name", BOUNDS)
def test_each_part_has_its_bounds(name: str) -> None:
    least, greatest = BOUNDS[name]
    for number in (least, greatest):
        change_terms(DEFAULT_TERMS, TermsChange(**{name: number}))  # type: ignore[typeddict-item]
    for number in (least - 0.05 * (least or 20), greatest * 1.01 + 1, math.nan, math.inf):
        with pytest.raises(InvalidRequestError) as caught:
            change_terms(DEFAULT_TERMS, TermsChange(**{name: number}))  # type: ignore[typeddict-item]
        assert caught.value.param == name
