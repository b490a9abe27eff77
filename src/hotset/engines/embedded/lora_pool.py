"""The LoRA matrices of all loaded adapters, packed along one rank axis.

Linears that read the same input form a site, as they are fused in the base. For each site the pool holds A
[num_layers, num_ranks, num_linears, d_in] and B [num_layers, num_ranks, sum of d_out], transposed and with its
scaling folded in; an adapter owns the same span of ranks in all of them. What it does not adapt is zero there.
Invariant (`check`): every rank that no adapter owns is zero everywhere.
"""

import torch

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.engines.embedded.adapter_files import StagedAdapter
from hotset.engines.embedded.rank_spans import RankSpans, Span, aligned

#: The sites of a layer, in the order of the forward pass.
QKV, OUT, GATE_UP, DOWN = range(4)
SITE_LINEARS = (LINEARS[:3], LINEARS[3:4], LINEARS[4:6], LINEARS[6:])


class LoraPool:
    """Slots for adapters of one base, in its serving dtype."""

    def __init__(self, shape: BaseShape, *, num_slots: int, rank_max: int, dtype: torch.dtype) -> None:
        self.shape = shape
        self.spans = RankSpans(num_slots=num_slots, rank_max=rank_max)
        #: By site; see the module's words for the shapes.
        self.a: list[torch.Tensor] = []
        self.b: list[torch.Tensor] = []
        #: By site: which of the columns of B belong to which linear.
        self.columns: list[dict[str, slice]] = []
        #: Goes up with every change of what lies where, so that others know when to look again.
        self.generation = 0
        self._linears: dict[EngineName, frozenset[str]] = {}
        for linears in SITE_LINEARS:
            d_in = shape.linear_shape(linears[0])[1]
            ends = [0]
            for linear in linears:
                ends.append(ends[-1] + shape.linear_shape(linear)[0])
            sizes = (shape.num_layers, self.spans.num_ranks)
            self.a.append(torch.zeros((*sizes, len(linears), d_in), dtype=dtype))
            self.b.append(torch.zeros((*sizes, ends[-1]), dtype=dtype))
            self.columns.append({linear: slice(ends[place], ends[place + 1]) for place, linear in enumerate(linears)})

    def linears(self, name: EngineName) -> frozenset[str]:
        """Return the linears that a loaded adapter adapts, in any layer."""
        return self._linears[name]

    def slot_bytes(self, rank: int) -> int:
        """Return the bytes that an adapter of this rank occupies."""
        return aligned(rank) * sum(pool[:, 0].numel() * pool.dtype.itemsize for pool in (*self.a, *self.b))

    def place(self, staged: StagedAdapter) -> None:
        """Copy an adapter into a free slot.

        Raises:
            LoadFailedError: no free slot.
        """
        if self.spans.is_full:
            raise LoadFailedError(f"all {self.spans.num_slots} adapter slots are taken.")
        span = self.spans.find(staged.rank)
        if span is None:
            self._compact()
            span = self.spans.find(staged.rank)
        assert span is not None, "a slot was free, so its ranks are"
        self.spans.take(staged.engine_name, span)
        ranks = slice(span.start, span.start + staged.rank)
        for site, linears in enumerate(SITE_LINEARS):
            for place, linear in enumerate(linears):
                if linear in staged.halves:
                    half_a, half_b = staged.halves[linear]
                    self.a[site][:, ranks, place] = half_a
                    self.b[site][:, ranks, self.columns[site][linear]] = half_b
        self._linears[staged.engine_name] = frozenset(staged.halves)
        self.generation += 1

    def drop(self, name: EngineName) -> None:
        """Zero and free a loaded adapter's slot."""
        span = self.spans.drop(name)
        for pool in (*self.a, *self.b):
            pool[:, span.start : span.stop] = 0
        del self._linears[name]
        self.generation += 1

    def check(self) -> None:
        """Assert the invariant, and that spans are sound."""
        self.spans.check()
        assert set(self.spans.names) == set(self._linears)
        for pool in (*self.a, *self.b):
            for gap in self.spans.gaps():
                assert not _ranks(pool, gap).any().item(), "a freed slot still holds numbers"

    def _compact(self) -> None:
        for move in self.spans.compact():
            for pool in (*self.a, *self.b):
                content = _ranks(pool, move.source).clone()
                _ranks(pool, move.source).zero_()
                _ranks(pool, move.target).copy_(content)


def _ranks(pool: torch.Tensor, span: Span) -> torch.Tensor:
    return pool[:, span.start : span.stop]
