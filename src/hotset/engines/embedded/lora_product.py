"""What a batch's adapters add to the base, computed for many of them together.

Prompt rows of neighbouring adapters take one product for ``u = A @ x.T`` over the ranks of all of them, then one for
each linear with B; between the two, every bit of a row's entries of u for ranks that are not its adapter's is cleared,
whatever they are. B is finite, which is checked when it is staged, so nothing of one row reaches another.
Decoding rows, each with an adapter of its own, take one product for u as well, and then, for each row, the sum of its
own ranks' rows of B weighted by its own entries of u: an embedding bag. What is read of B is what is used.
A site's output is seen as chunks of equal width, so that one bag for each (row, chunk) covers all its linears.
Rows of the bare base are in no product at all.
Source: batching over one pool is the idea of Punica (arXiv 2310.18547); the steps are our own, chosen because small
matrix products cost more to start than to compute.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hotset.core.ids import EngineName
from hotset.engines.embedded.linear import product
from hotset.engines.embedded.lora_pool import SITE_LINEARS, LoraPool
from hotset.engines.embedded.rank_spans import Span

#: Ranks of nobody in the batch that one product for u may cover rather than be split in two.
_GAP_RANKS_MAX = 64
#: Ranks of one site that prompts of several adapters may share: the more, the more pairs are computed and dropped.
_SHARED_RANKS_MAX = 128
#: Sets of adapters whose index tensors and slices are kept.
_KEPT_MAX = 64
#: By bytes of a number, the integers that see its bits.
_BITS = {2: torch.int16, 4: torch.int32}


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one prompt."""

    name: EngineName
    first_row: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Factors:
    """What one layer's site takes for the prompts of a few adapters."""

    num_ranks: int
    #: [num_ranks * num_linears, d_in].
    a: torch.Tensor
    #: For each adapted linear: its place in the site, B [num_ranks, d_out] and its columns.
    linears: list[tuple[int, torch.Tensor, slice]]


@dataclass(frozen=True, slots=True)
class PromptTerm:
    """Consecutive rows of the prompts of one or a few adapters."""

    rows: slice
    #: By layer, by site; None where no row adapts it.
    factors: list[list[_Factors | None]]
    #: By site, [num_rows, num_ranks]: all bits of an entry of u that is the row's own, none of another's; None where
    #: all rows use one adapter.
    bits: list[torch.Tensor | None]


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
    """What one layer's site takes for decoding rows."""

    #: For each stretch of ranks, A [num_ranks * num_linears, d_in].
    a: tuple[torch.Tensor, ...]
    #: B as rows of one chunk [num_ranks * num_chunks, width].
    table: torch.Tensor
    bags: _Bags


@dataclass(frozen=True, slots=True)
class DecodeTerm:
    """Consecutive rows, one token each, of any adapters."""

    rows: slice
    #: By layer, by site; None where no row adapts it.
    steps: list[list[_Step | None]]


LoraTerm = PromptTerm | DecodeTerm


class LoraTerms:
    """Makes the terms of batches over one pool, and keeps what did not change since the last step."""

    def __init__(self, pool: LoraPool) -> None:
        self._pool = pool
        self._generation = -1
        self._factors: dict[tuple[EngineName, ...], list[list[_Factors | None]]] = {}
        self._decodes: dict[tuple[int, tuple[EngineName, ...]], DecodeTerm] = {}
        self._widths = [math.gcd(*(c.stop - c.start for c in columns.values())) for columns in pool.columns]
        self._tables = [[layer.view(-1, width) for layer in pool.b[site]] for site, width in enumerate(self._widths)]

    def prompts(self, pieces: Sequence[Piece]) -> list[PromptTerm]:
        """Return the terms of pieces whose rows follow one another, neighbours in the pool best side by side."""
        self._refresh()
        groups: list[list[Piece]] = []
        for piece in pieces:
            if groups and self._may_share([each.name for each in groups[-1]], piece.name):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return [self._prompt_term(group) for group in groups]

    def decodes(self, first_row: int, names: Sequence[EngineName]) -> DecodeTerm:
        """Return the term of consecutive rows with one adapter each; the same names in the same order are kept."""
        self._refresh()
        key = (first_row, tuple(names))
        if key not in self._decodes:
            self._decodes[key] = self._decode_term(first_row, names)
        return self._decodes[key]

    def _refresh(self) -> None:
        if self._generation != self._pool.generation or len(self._factors) + len(self._decodes) > _KEPT_MAX:
            self._generation = self._pool.generation
            self._factors.clear()
            self._decodes.clear()

    def _spans(self, site: int, names: Sequence[EngineName]) -> list[Span]:
        """Return the spans of those of the adapters that adapt a site, in order."""
        spans = {self._pool.span(site, name) for name in names}
        return sorted(span for span in spans if span is not None)

    def _may_share(self, names: list[EngineName], name: EngineName) -> bool:
        if name in names:
            return True
        spans = [self._spans(site, [*names, name]) for site in range(len(SITE_LINEARS))]
        return all(each[-1].stop - each[0].start <= _SHARED_RANKS_MAX for each in spans if each)

    def _prompt_term(self, group: Sequence[Piece]) -> PromptTerm:
        names = tuple(dict.fromkeys(piece.name for piece in group))
        if names not in self._factors:
            self._factors[names] = [
                [self._prompt_factors(layer, site, names) for site in range(len(SITE_LINEARS))]
                for layer in range(self._pool.shape.num_layers)
            ]
        rows = slice(group[0].first_row, group[-1].first_row + group[-1].num_rows)
        bits = [self._bits(site, group) if len(names) > 1 else None for site in range(len(SITE_LINEARS))]
        return PromptTerm(rows, self._factors[names], bits)

    def _prompt_factors(self, layer: int, site: int, names: Sequence[EngineName]) -> _Factors | None:
        spans = self._spans(site, names)
        if not spans:
            return None
        ranks = slice(spans[0].start, spans[-1].stop)
        adapted = frozenset[str]().union(*map(self._pool.linears, names))
        b = self._pool.b[site][layer, ranks]
        linears = [
            (place, b[:, columns], columns)
            for place, (linear, columns) in enumerate(self._pool.columns[site].items())
            if linear in adapted
        ]
        return _Factors(len(b), self._pool.a[site][layer, ranks].flatten(0, 1), linears)

    def _bits(self, site: int, group: Sequence[Piece]) -> torch.Tensor | None:
        spans = self._spans(site, [piece.name for piece in group])
        if not spans:
            return None
        first_rank, first_row = spans[0].start, group[0].first_row
        num_rows = group[-1].first_row + group[-1].num_rows - first_row
        dtype = _BITS[self._pool.a[site].itemsize]
        bits = torch.zeros((num_rows, spans[-1].stop - first_rank), dtype=dtype)
        for piece in group:
            if (span := self._pool.span(site, piece.name)) is not None:
                row = piece.first_row - first_row
                bits[row : row + piece.num_rows, span.start - first_rank : span.stop - first_rank] = -1
        return bits

    def _decode_term(self, first_row: int, names: Sequence[EngineName]) -> DecodeTerm:
        stretches = [_stretches(self._spans(site, names)) for site in range(len(SITE_LINEARS))]
        bags = [self._bags(site, names, stretches[site]) for site in range(len(SITE_LINEARS))]
        steps = [
            [self._step(layer, site, stretches[site], bags[site]) for site in range(len(SITE_LINEARS))]
            for layer in range(self._pool.shape.num_layers)
        ]
        return DecodeTerm(slice(first_row, first_row + len(names)), steps)

    def _step(self, layer: int, site: int, stretches: Sequence[Span], bags: _Bags | None) -> _Step | None:
        if bags is None:
            return None
        whole = self._pool.a[site][layer]
        a = tuple(whole[each.start : each.stop].flatten(0, 1) for each in stretches)
        return _Step(a, self._tables[site][layer], bags)

    def _bags(self, site: int, names: Sequence[EngineName], stretches: Sequence[Span]) -> _Bags | None:
        if not stretches:
            return None
        columns, width = self._pool.columns[site], self._widths[site]
        num_linears, num_chunks = len(columns), self._pool.b[site].shape[-1] // width
        # u lies by row, then by rank, stretch after stretch, then by linear.
        rank_at = {rank: at for at, rank in enumerate(itertools.chain.from_iterable(map(_ranks, stretches)))}
        entries: list[int] = []
        items: list[int] = []
        offsets: list[int] = []
        for row, name in enumerate(names):
            first = row * len(rank_at)
            ranks, adapted = _ranks(self._pool.span(site, name)), self._pool.linears(name)
            for place, (linear, its_columns) in enumerate(columns.items()):
                own = ranks if linear in adapted else ()
                for chunk in range(its_columns.start // width, its_columns.stop // width):
                    offsets.append(len(items))
                    items += [rank * num_chunks + chunk for rank in own]
                    entries += [(first + rank_at[rank]) * num_linears + place for rank in own]
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
        if isinstance(term, PromptTerm):
            if (factors := term.factors[layer][site]) is not None:
                _add_prompts(term.rows, factors, term.bits[site], x, y)
        elif (step := term.steps[layer][site]) is not None:
            _add_decodes(term.rows, step, x, y)


def _add_prompts(rows: slice, factors: _Factors, bits: torch.Tensor | None, x: torch.Tensor, y: torch.Tensor) -> None:
    inputs, outputs = x[rows], y[rows]
    u = product(inputs, factors.a).view(len(inputs), factors.num_ranks, -1)
    # By linear, row, rank: matrix kernels take a u with gaps far more slowly than it is copied.
    u = u.permute(2, 0, 1).contiguous()
    if bits is not None:
        u.view(bits.dtype).bitwise_and_(bits)
    for place, b, columns in factors.linears:
        outputs[:, columns].addmm_(u[place], b)


def _add_decodes(rows: slice, step: _Step, x: torch.Tensor, y: torch.Tensor) -> None:
    # Each view costs as much as a small kernel, so the usual case, every row and one stretch, makes few.
    if rows.stop - rows.start != len(y):
        x, y = x[rows], y[rows]
    u = product(x, step.a[0]) if len(step.a) == 1 else torch.cat([product(x, a) for a in step.a], dim=1)
    bags = step.bags
    weights = u.take(bags.entries)
    added = torch.embedding_bag(step.table, bags.items, bags.offsets, False, 0, False, weights, False)[0]
    y.add_(added.view(-1, y.shape[1]))


def _stretches(spans: Sequence[Span]) -> list[Span]:
    """Join spans that lie close together, so that few products cover them all."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.start - joined[-1].stop <= _GAP_RANKS_MAX:
            joined[-1] = Span(joined[-1].start, span.stop)
        else:
            joined.append(span)
    return joined


def _ranks(span: Span | None) -> range:
    return range(0) if span is None else range(span.start, span.stop)
