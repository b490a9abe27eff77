"""As many adapters of the highest rank fit as there are slots, however loads and unloads are mixed."""

import random

import pytest

from hotset.core.ids import EngineName
from hotset.engines.embedded.rank_spans import Move, RankSpans, Span, aligned


def name_of(number: int) -> EngineName:
    return EngineName(f"hs-{number:032x}")


@pytest.mark.parametrize(("rank", "width"), [(1, 4), (4, 4), (5, 8), (16, 16)])
def test_ranks_are_rounded_up(rank: int, width: int) -> None:
    assert aligned(rank) == width


def test_first_fit_from_the_front() -> None:
    spans = RankSpans(num_slots=3, rank_max=8)
    for number, rank in enumerate((8, 4, 8)):
        span = spans.find(rank)
        assert span is not None
        spans.take(name_of(number), span)
    assert spans.is_full
    assert [spans[name_of(number)] for number in range(3)] == [Span(0, 8), Span(8, 12), Span(12, 20)]
    assert spans.gaps() == [Span(20, 24)]
    assert spans.drop(name_of(0)) == Span(0, 8)
    assert spans.find(3) == Span(0, 4)
    assert name_of(0) not in spans
    assert spans.names == (name_of(1), name_of(2))


def test_scattered_room_is_moved_together() -> None:
    spans = RankSpans(num_slots=2, rank_max=8)
    spans.take(name_of(1), Span(0, 4))
    spans.take(name_of(2), Span(4, 12))
    spans.drop(name_of(1))
    assert spans.find(8) is None
    assert spans.compact() == [Move(Span(4, 12), Span(0, 8))]
    assert spans.find(8) == Span(8, 16)
    assert spans.compact() == []


@pytest.mark.parametrize("seed", range(10))
def test_a_free_slot_always_fits_any_rank(seed: int) -> None:
    chance = random.Random(seed)
    spans = RankSpans(num_slots=5, rank_max=16)
    for number in range(300):
        if spans.is_full or (spans.names and chance.random() < 0.5):
            spans.drop(chance.choice(spans.names))
        else:
            rank = chance.randrange(1, 17)
            span = spans.find(rank)
            if span is None:
                spans.compact()
                span = spans.find(rank)
            assert span is not None
            spans.take(name_of(number), span)
        spans.check()
