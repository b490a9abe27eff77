"""Which ranks of one site of the LoRA pool belong to which adapter. Pure: the numbers live in `lora_pool`.

Each adapter of the site owns one contiguous span of its rank axis. First fit; when the room is there
but scattered, spans move together. A span is rounded up to `ALIGNMENT` ranks.
Invariant (`check`): spans are disjoint and inside the pool.
"""

import itertools
from dataclasses import dataclass

from hotset.core.ids import EngineName

#: Ranks come in fours: `lora_kernel` takes as many at once.
ALIGNMENT = 4


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Ranks `start` to `stop` of the pool, the last one excluded."""

    start: int
    stop: int

    @property
    def width(self) -> int:
        """Ranks in the span."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Move:
    """A span's content goes from `source` down to `target`; moves are carried out in order."""

    source: Span
    target: Span


def aligned(rank: int) -> int:
    """Return the ranks that an adapter of this rank occupies."""
    return -(-rank // ALIGNMENT) * ALIGNMENT


class RankSpans:
    """The spans of loaded adapters in a site that holds `num_slots` adapters of the highest rank."""

    def __init__(self, *, num_slots: int, rank_max: int) -> None:
        self.num_slots = num_slots
        self.num_ranks = num_slots * aligned(rank_max)
        self._spans: dict[EngineName, Span] = {}

    def __contains__(self, name: EngineName) -> bool:
        return name in self._spans

    def __getitem__(self, name: EngineName) -> Span:
        return self._spans[name]

    def get(self, name: EngineName) -> Span | None:
        """Return an adapter's span, None where it has none."""
        return self._spans.get(name)

    @property
    def names(self) -> tuple[EngineName, ...]:
        """Loaded adapters, in order of loading."""
        return tuple(self._spans)

    @property
    def is_full(self) -> bool:
        """Whether every slot is taken."""
        return len(self._spans) >= self.num_slots

    def find(self, rank: int) -> Span | None:
        """Return a free span for a rank, or None where none is wide enough as things lie."""
        width, start = aligned(rank), 0
        for span in sorted(self._spans.values()):
            if span.start - start >= width:
                break
            start = span.stop
        return Span(start, start + width) if start + width <= self.num_ranks else None

    def take(self, name: EngineName, span: Span) -> None:
        """Give an adapter a span that `find` returned."""
        assert name not in self._spans
        assert not self.is_full
        self._spans[name] = span

    def drop(self, name: EngineName) -> Span:
        """Free an adapter's span and return it."""
        return self._spans.pop(name)

    def compact(self) -> list[Move]:
        """Move all spans to the front; return the moves, lowest target first."""
        moves: list[Move] = []
        start = 0
        for name, span in sorted(self._spans.items(), key=lambda item: item[1]):
            target = Span(start, start + span.width)
            if target != span:
                moves.append(Move(span, target))
                self._spans[name] = target
            start = target.stop
        return moves

    def gaps(self) -> list[Span]:
        """Return the free stretches, in order."""
        edges = [Span(0, 0), *sorted(self._spans.values()), Span(self.num_ranks, self.num_ranks)]
        pairs = itertools.pairwise(edges)
        return [Span(left.stop, right.start) for left, right in pairs if left.stop < right.start]

    def check(self) -> None:
        """Assert the invariant."""
        spans = sorted(self._spans.values())
        assert len(spans) <= self.num_slots
        assert all(0 <= span.start < span.stop <= self.num_ranks for span in spans)
        assert all(left.stop <= right.start for left, right in itertools.pairwise(spans))
        assert sum(span.width for span in [*spans, *self.gaps()]) == self.num_ranks
