"""Every leaf of the error tree has a status on the plane where it can be met."""

import pytest

from hotset.control.problems import STATUS_OF
from hotset.core.errors import HotsetError, leaf_errors
from hotset.gateway.problems import STATUSES


@pytest.mark.parametrize("leaf", leaf_errors(), ids=lambda leaf: leaf.__name__)
def test_a_leaf_has_a_status_at_the_gateway_or_at_control(leaf: type[HotsetError]) -> None:
    assert leaf in STATUSES or any(kind in STATUS_OF for kind in leaf.__mro__)


def test_codes_are_unique() -> None:
    codes = [leaf.code for leaf in leaf_errors()]
    assert len(set(codes)) == len(codes)
    assert "internal" not in codes
