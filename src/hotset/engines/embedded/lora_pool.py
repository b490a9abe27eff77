"""The LoRA matrices of all loaded adapters, packed along one rank axis, and their product for a whole batch.

For each linear the pool holds A [num_layers, num_ranks, d_in] and B [num_layers, num_ranks, d_out] (scaling folded
in); an adapter owns the same span of ranks in all of them. For a batch, ``u = x @ A.T`` is computed over the spans
in use at once; entries of u that are another adapter's are overwritten with zero, not multiplied by it, since
0 * inf is NaN; then ``y += u @ B``. Rows of the bare base are in no group, so nothing is ever added to them.
One product over many adapters computes what is then overwritten, so the ranks it covers are bounded.
Small products are faster in float32 than in half precision, where starting a kernel costs more than its arithmetic:
a base of small width keeps its adapters in float32, which also loses nothing of theirs.
Source: the packed form is our own; the idea of batching over one pool is Punica's (arXiv 2310.18547).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.engines.embedded.adapter_files import StagedAdapter
from hotset.engines.embedded.rank_spans import RankSpans, Span, aligned

#: Linears that read the same input, fused in the base: `sites` of the forward pass.
QKV, OUT, GATE_UP, DOWN = range(4)
_SITE_LINEARS = (LINEARS[:3], LINEARS[3:4], LINEARS[4:6], LINEARS[6:])
#: Free or unused ranks that one product may cover rather than be split in two: a kernel's start costs about as much.
_GAP_RANKS_MAX = 32
#: Ranks of different adapters in one product.
_PRODUCT_RANKS_MAX = 96
#: Widest base whose adapters are kept in float32 whatever the base's dtype is.
_FLOAT32_HIDDEN_MAX = 2048
#: Ranges of ranks whose slices are kept.
_KEPT_VIEWS_MAX = 64


@dataclass(frozen=True, slots=True)
class _Factor:
    """One linear's matrices over one range of ranks, and which columns of the site's output they add to."""

    a: torch.Tensor
    b: torch.Tensor
    first_column: int
    last_column: int


@dataclass(frozen=True, slots=True)
class LoraTerm:
    """One product: rows of the batch with the ranks of the adapters they use."""

    first_row: int
    last_row: int
    #: [num_rows, num_ranks], true where the rank is not the row's own; None where every row uses every rank.
    foreign: torch.Tensor | None
    #: By layer, by site: the adapted linears.
    factors: list[tuple[tuple[_Factor, ...], ...]]


class LoraPool:
    """Slots for adapters of one base, in one dtype."""

    def __init__(self, shape: BaseShape, *, num_slots: int, rank_max: int, dtype: torch.dtype) -> None:
        self.spans = RankSpans(num_slots=num_slots, rank_max=rank_max)
        self._shape = shape
        self._dtype = torch.float32 if shape.hidden_size <= _FLOAT32_HIDDEN_MAX else dtype
        self._linears: dict[EngineName, frozenset[str]] = {}
        self._a: dict[str, torch.Tensor] = {}
        self._b: dict[str, torch.Tensor] = {}
        for linear in LINEARS:
            d_out, d_in = shape.linear_shape(linear)
            self._a[linear] = torch.zeros((shape.num_layers, self.spans.num_ranks, d_in), dtype=self._dtype)
            self._b[linear] = torch.zeros((shape.num_layers, self.spans.num_ranks, d_out), dtype=self._dtype)
        self._factors: dict[tuple[Span, frozenset[str]], list[tuple[tuple[_Factor, ...], ...]]] = {}

    @property
    def dtype(self) -> torch.dtype:
        """In which adapters are kept and multiplied."""
        return self._dtype

    def slot_bytes(self, rank: int) -> int:
        """Return the bytes that an adapter of this rank occupies."""
        pools = [*self._a.values(), *self._b.values()]
        return aligned(rank) * sum(pool[:, 0].numel() * pool.dtype.itemsize for pool in pools)

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
        for linear, (half_a, half_b) in staged.halves.items():
            self._a[linear][:, span.start : span.start + staged.rank] = half_a
            self._b[linear][:, span.start : span.start + staged.rank] = half_b
        self._linears[staged.engine_name] = frozenset(staged.halves)

    def drop(self, name: EngineName) -> None:
        """Zero and free a loaded adapter's slot."""
        self._erase(self.spans.drop(name))
        del self._linears[name]
        self._factors.clear()

    def term(self, first_row: int, names: Sequence[EngineName]) -> list[LoraTerm]:
        """Return the products for consecutive rows that use adapters `names`, one name a row, sorted by span."""
        terms: list[LoraTerm] = []
        rows = [(self.spans[name], name) for name in names]
        start = 0
        for row in range(1, len(rows) + 1):
            if row == len(rows) or _must_split(rows[start][0], rows[row - 1][0], rows[row][0]):
                terms.append(self._term(first_row + start, rows[start:row]))
                start = row
        return terms

    def uniform_term(self, first_row: int, num_rows: int, name: EngineName) -> LoraTerm:
        """Return the product for consecutive rows that all use one adapter."""
        return LoraTerm(first_row, first_row + num_rows, None, self._views(self.spans[name], self._linears[name]))

    def check(self) -> None:
        """Assert that spans are sound and that every free rank is zero."""
        self.spans.check()
        assert set(self.spans.names) == set(self._linears)
        for pool in [*self._a.values(), *self._b.values()]:
            for gap in self.spans.gaps():
                assert not pool[:, gap.start : gap.stop].any().item(), "a freed slot still holds numbers"

    def _term(self, first_row: int, rows: Sequence[tuple[Span, EngineName]]) -> LoraTerm:
        spans = [span for span, _ in rows]
        whole = Span(spans[0].start, spans[-1].stop)
        linears = frozenset[str]().union(*(self._linears[name] for name in {name: None for _, name in rows}))
        foreign = None
        if spans[0] != spans[-1]:
            ranks = torch.arange(whole.start, whole.stop)
            starts = torch.tensor([[span.start] for span in spans])
            stops = torch.tensor([[span.stop] for span in spans])
            foreign = (ranks < starts) | (ranks >= stops)
        return LoraTerm(first_row, first_row + len(rows), foreign, self._views(whole, linears))

    def _views(self, span: Span, linears: frozenset[str]) -> list[tuple[tuple[_Factor, ...], ...]]:
        """Return the slices for a range of ranks; kept, since making them anew would cost as much as the products."""
        kept = self._factors.get((span, linears))
        if kept is None:
            if len(self._factors) >= _KEPT_VIEWS_MAX:
                self._factors.clear()
            kept = [
                tuple(self._site_factors(layer, site, span, linears) for site in range(len(_SITE_LINEARS)))
                for layer in range(self._shape.num_layers)
            ]
            self._factors[span, linears] = kept
        return kept

    def _site_factors(self, layer: int, site: int, span: Span, linears: frozenset[str]) -> tuple[_Factor, ...]:
        factors: list[_Factor] = []
        column = 0
        for linear in _SITE_LINEARS[site]:
            d_out = self._shape.linear_shape(linear)[0]
            if linear in linears:
                a = self._a[linear][layer, span.start : span.stop].t()
                b = self._b[linear][layer, span.start : span.stop]
                factors.append(_Factor(a, b, column, column + d_out))
            column += d_out
        return tuple(factors)

    def _compact(self) -> None:
        for move in self.spans.compact():
            for pool in [*self._a.values(), *self._b.values()]:
                content = pool[:, move.source.start : move.source.stop].clone()
                pool[:, move.source.start : move.source.stop] = 0
                pool[:, move.target.start : move.target.stop] = content
        self._factors.clear()

    def _erase(self, span: Span) -> None:
        for pool in [*self._a.values(), *self._b.values()]:
            pool[:, span.start : span.stop] = 0


def add_lora(terms: Sequence[LoraTerm], layer: int, site: int, x: torch.Tensor, y: torch.Tensor) -> None:
    """Add the adapters' part to a fused linear's output, in place.

    Args:
        terms: The batch's products.
        layer: Of the model.
        site: `QKV`, `OUT`, `GATE_UP` or `DOWN`.
        x: The linear's input [num_tokens, d_in].
        y: Its output [num_tokens, d_out].
    """
    for term in terms:
        factors = term.factors[layer][site]
        if not factors:
            continue
        rows = x[term.first_row : term.last_row].to(factors[0].a.dtype)
        for factor in factors:
            u = torch.mm(rows, factor.a)
            if term.foreign is not None:
                u.masked_fill_(term.foreign, 0)
            part = y[term.first_row : term.last_row, factor.first_column : factor.last_column]
            if part.dtype == u.dtype:
                part.addmm_(u, factor.b)
            else:
                part.add_(torch.mm(u, factor.b))


def _must_split(first: Span, previous: Span, following: Span) -> bool:
    """Whether a product over the ranks from `first` to `previous` should not take `following` in."""
    if following == previous:
        return False
    return following.start - previous.stop > _GAP_RANKS_MAX or following.stop - first.start > _PRODUCT_RANKS_MAX
