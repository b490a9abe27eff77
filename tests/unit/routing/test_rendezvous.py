"""Highest random weight: the same for everybody, balanced, and undisturbed by those who come and go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.core.ids import WorkerId
from hotset.routing.rendezvous import draw, rank

NAMES = st.lists(st.text("abcdef0123456789-", min_size=1, max_size=6), min_size=1, max_size=8, unique=True)
SUBJECTS = [f"hs-{number:032x}" for number in range(2000)]


def sizes(*names: str) -> dict[WorkerId, float]:
    return {WorkerId(name): 8.0 for name in names}


@given(NAMES, st.randoms(use_true_random=False), st.text(max_size=8))
def test_the_order_of_the_workers_does_not_matter(names: list[str], random: object, subject: str) -> None:
    shuffled = sorted(names, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert rank(subject, sizes(*names)) == rank(subject, sizes(*shuffled))


@given(NAMES, st.text(max_size=8), st.data())
def test_without_one_worker_the_others_keep_their_order(names: list[str], subject: str, drawn: st.DataObject) -> None:
    gone = drawn.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]
    assert rank(subject, sizes(*left)) == [worker for worker in rank(subject, sizes(*names)) if worker != gone]


def test_subjects_spread_evenly() -> None:
    won = Counter(rank(subject, sizes("a", "b", "c", "d"))[0] for subject in SUBJECTS)
    assert all(abs(count - 500) < 4 * (2000 * 0.25 * 0.75) ** 0.5 for count in won.values()), won


def test_a_worker_of_twice_the_size_wins_twice_as_often() -> None:
    uneven = {WorkerId("a"): 4.0, WorkerId("b"): 8.0}
    won = Counter(rank(subject, uneven)[0] for subject in SUBJECTS)
    assert abs(won[WorkerId("b")] - 2000 * 2 / 3) < 4 * (2000 * 2 / 9) ** 0.5, won


def test_a_draw_is_the_same_in_every_process_and_release() -> None:
    # Written down: homes that differ after an upgrade would be loaded anew everywhere. Hash seeds differ run by run.
    assert draw("hs-1", WorkerId("gpu-1"), 7.0) == pytest.approx(13.934985815867265, rel=1e-12)
    assert "".join(rank(f"hs-{number}", sizes("a", "b", "c"))[0] for number in range(12)) == "cbbbacccabbc"
