"""What a batch's adapters add to the base, computed for all of them together.

Rows that all use one adapter (a piece of a prompt) take two plain products. Decoding rows, each with an adapter of
its own, take one product for ``u = A @ x.T`` over the ranks of all adapters in the batch, and then, for each row, the
sum of its own ranks' rows of B weighted by its own entries of u: an embedding bag. No other adapter's number is read
for a row, so nothing that overflows can reach a neighbour, and rows of the bare base are in no product at all.
A site's output is seen as chunks of equal width, so that one bag for each (row, chunk) covers all its linears.
Source: batching over one pool is the idea of Punica (arXiv 2310.18547); the two steps are our own, chosen because
small matrix products cost more to start than to compute, and a masked one would compute every pair.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hotset.core.ids import EngineName
from hotset.engines.embedded.lora_pool import SITE_LINEARS, LoraPool
from hotset.engines.embedded.rank_spans import Span

#: Ranks of nobody in the batch that one product for u may cover rather than be split in two.
_GAP_RANKS_MAX = 64
#: Sets of decoding rows, and single adapters, whose index tensors and slices are kept.
_KEPT_MAX = 64


@dataclass(frozen=True, slots=True)
class UniformTerm:
    """Consecutive rows that all use one adapter."""

    rows: slice
    #: By layer, by site: A transposed [d_in, rank], B [rank, d_out] and its columns, for each adapted linear.
    factors: list[list[list[tuple[torch.Tensor, torch.Tensor, slice]]]]


@dataclass(frozen=True, slots=True)
class _Range:
    """Decoding rows whose adapters lie close together in the pool."""

    rows: slice
    span: Span
    #: Entries of the flat u, in units of a site's linears, before this range's.
    origin: int


@dataclass(frozen=True, slots=True)
class _Bags:
    """For one site, one bag a row and chunk."""

    #: Which entry of the flat u weighs each bag's items.
    entries: torch.Tensor
    #: The items: rows of the table.
    items: torch.Tensor
    #: Where each bag starts.
    offsets: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Step:
    """What one layer's site takes."""

    #: For each range, A [num_ranks * num_linears, d_in].
    a: tuple[torch.Tensor, ...]
    #: B as rows of one chunk [num_ranks * num_chunks, width].
    table: torch.Tensor
    bags: _Bags


@dataclass(frozen=True, slots=True)
class MixedTerm:
    """Consecutive rows, one token each, of any adapters."""

    rows: slice
    ranges: tuple[_Range, ...]
    #: By layer, by site; None where no row adapts it.
    steps: list[list[_Step | None]]


LoraTerm = UniformTerm | MixedTerm


class LoraTerms:
    """Makes the terms of batches over one pool, and keeps what did not change since the last step."""

    def __init__(self, pool: LoraPool) -> None:
        self._pool = pool
        self._generation = -1
        self._uniform: dict[EngineName, list[list[list[tuple[torch.Tensor, torch.Tensor, slice]]]]] = {}
        self._mixed: dict[tuple[int, tuple[EngineName, ...]], MixedTerm] = {}
        self._widths = [math.gcd(*(c.stop - c.start for c in columns.values())) for columns in pool.columns]
        self._tables = [[layer.view(-1, width) for layer in pool.b[site]] for site, width in enumerate(self._widths)]

    def uniform(self, first_row: int, num_rows: int, name: EngineName) -> UniformTerm:
        """Return the term of consecutive rows of one adapter."""
        self._refresh()
        if name not in self._uniform:
            self._uniform[name] = [
                [self._linear_factors(layer, site, name) for site in range(len(SITE_LINEARS))]
                for layer in range(self._pool.shape.num_layers)
            ]
        return UniformTerm(slice(first_row, first_row + num_rows), self._uniform[name])

    def mixed(self, first_row: int, names: Sequence[EngineName]) -> MixedTerm:
        """Return the term of consecutive rows with one adapter each, sorted by their spans."""
        self._refresh()
        key = (first_row, tuple(names))
        if key not in self._mixed:
            self._mixed[key] = self._make_mixed(first_row, names)
        return self._mixed[key]

    def _refresh(self) -> None:
        if self._generation != self._pool.generation or len(self._uniform) + len(self._mixed) > _KEPT_MAX:
            self._generation = self._pool.generation
            self._uniform.clear()
            self._mixed.clear()

    def _linear_factors(
        self, layer: int, site: int, name: EngineName
    ) -> list[tuple[torch.Tensor, torch.Tensor, slice]]:
        span, linears = self._pool.spans[name], self._pool.linears(name)
        a = self._pool.a[site][layer, span.start : span.stop]
        b = self._pool.b[site][layer, span.start : span.stop]
        return [
            (a[:, place].t(), b[:, columns], columns)
            for place, (linear, columns) in enumerate(self._pool.columns[site].items())
            if linear in linears
        ]

    def _make_mixed(self, first_row: int, names: Sequence[EngineName]) -> MixedTerm:
        spans = [self._pool.spans[name] for name in names]
        bounds = [0, *(row for row in range(1, len(spans)) if _is_apart(spans[row - 1], spans[row])), len(spans)]
        ranges: list[_Range] = []
        origin = 0
        for start, stop in itertools.pairwise(bounds):
            whole = Span(spans[start].start, spans[stop - 1].stop)
            ranges.append(_Range(slice(first_row + start, first_row + stop), whole, origin))
            origin += whole.width * (stop - start)
        bags = [self._bags(site, first_row, names, ranges) for site in range(len(SITE_LINEARS))]
        steps = [
            [self._step(layer, site, ranges, bags[site]) for site in range(len(SITE_LINEARS))]
            for layer in range(self._pool.shape.num_layers)
        ]
        return MixedTerm(slice(first_row, first_row + len(names)), tuple(ranges), steps)

    def _step(self, layer: int, site: int, ranges: Sequence[_Range], bags: _Bags | None) -> _Step | None:
        if bags is None:
            return None
        a = self._pool.a[site][layer]
        parts = tuple(a[part.span.start : part.span.stop].flatten(0, 1) for part in ranges)
        return _Step(parts, self._tables[site][layer], bags)

    def _bags(self, site: int, first_row: int, names: Sequence[EngineName], ranges: Sequence[_Range]) -> _Bags | None:
        columns, width = self._pool.columns[site], self._widths[site]
        num_linears, num_chunks = len(columns), self._pool.b[site].shape[-1] // width
        entries: list[int] = []
        items: list[int] = []
        offsets: list[int] = []
        for part in ranges:
            num_rows = part.rows.stop - part.rows.start
            for row in range(num_rows):
                name = names[part.rows.start - first_row + row]
                span, adapted = self._pool.spans[name], self._pool.linears(name)
                for place, (linear, its_columns) in enumerate(columns.items()):
                    ranks = range(span.start, span.stop) if linear in adapted else range(0)
                    # u lies by rank, then linear, then row.
                    first = (part.origin - part.span.start * num_rows) * num_linears + place * num_rows + row
                    own = [first + rank * num_linears * num_rows for rank in ranks]
                    for chunk in range(its_columns.start // width, its_columns.stop // width):
                        offsets.append(len(items))
                        items += [rank * num_chunks + chunk for rank in ranks]
                        entries += own
        if not items:
            return None
        return _Bags(torch.tensor(entries), torch.tensor(items), torch.tensor(offsets))


def add_lora(terms: Sequence[LoraTerm], layer: int, site: int, x: torch.Tensor, y: torch.Tensor) -> None:
    """Add the adapters' part to a fused linear's output, in place.

    Args:
        terms: The batch's.
        layer: Of the model.
        site: One of `lora_pool`'s.
        x: The site's input [num_tokens, d_in].
        y: Its output [num_tokens, sum of d_out].
    """
    for term in terms:
        if isinstance(term, UniformTerm):
            rows = x[term.rows]
            for a, b, columns in term.factors[layer][site]:
                y[term.rows, columns].addmm_(torch.mm(rows, a), b)
        elif (step := term.steps[layer][site]) is not None:
            _add_mixed(term, step, x, y)


def _add_mixed(term: MixedTerm, step: _Step, x: torch.Tensor, y: torch.Tensor) -> None:
    # Each view costs as much as a small kernel, so the usual case, every row in one range, makes few.
    is_whole = term.rows.stop - term.rows.start == len(y)
    if is_whole and len(step.a) == 1:
        u = torch.mm(step.a[0], x.t())
    else:
        parts = zip(term.ranges, step.a, strict=True)
        u = torch.cat([torch.mm(a, x[part.rows].t()).view(-1) for part, a in parts])
    bags = step.bags
    weights = u.take(bags.entries)
    added = torch.embedding_bag(step.table, bags.items, bags.offsets, False, 0, False, weights, False)[0]
    (y if is_whole else y[term.rows]).add_(added.view(-1, y.shape[1]))


def _is_apart(left: Span, right: Span) -> bool:
    return right.start - left.stop > _GAP_RANKS_MAX
