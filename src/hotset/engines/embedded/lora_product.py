"""What a batch's adapters add to the base, computed for many of them together.

Prompt rows of neighbouring adapters take one product for ``u = A @ x.T`` over the ranks of all of them, then one for
each linear with B; between the two, every bit of a row's entries of u for ranks that are not its adapter's is cleared,
whatever they are. B is finite, which is checked when it is staged, so nothing of one row reaches another.
Decoding rows, each with an adapter of its own, are computed by `lora_kernel` one after the other: what is read is what
is used, and no row's numbers depend on another's.
Rows of the bare base are in no product at all.
Source: batching over one pool is the idea of Punica (arXiv 2310.18547); the steps are our own, chosen because small
matrix products cost more to start than to compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hotset.core.ids import EngineName
from hotset.engines.embedded.linear import product
from hotset.engines.embedded.lora_kernel import add_rows, as_stored
from hotset.engines.embedded.lora_pool import SITE_LINEARS, LoraPool
from hotset.engines.embedded.rank_spans import Span

#: Ranks of one site that prompts of several adapters may share: the more, the more pairs are computed and dropped.
_SHARED_RANKS_MAX = 128
#: Sets of adapters whose index tensors and slices are kept.
_KEPT_MAX = 64
#: By bytes of a number, the integers that see its bits.
_BITS = {2: torch.int16, 4: torch.int32}

_Array = np.ndarray[Any, Any]
_RowFactors = tuple[_Array, ...]


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
class DecodeTerm:
    """Consecutive rows, one token each, of any adapters."""

    rows: slice
    #: By layer, by site, what the kernel takes after x and y; None where no row adapts it.
    factors: list[list[_RowFactors | None]]


LoraTerm = PromptTerm | DecodeTerm


class LoraTerms:
    """Makes the terms of batches over one pool, and keeps what did not change since the last step."""

    def __init__(self, pool: LoraPool) -> None:
        self._pool = pool
        self._generation = -1
        self._factors: dict[tuple[EngineName, ...], list[list[_Factors | None]]] = {}
        self._decodes: dict[tuple[int, tuple[EngineName, ...]], DecodeTerm] = {}
        self._ends = [np.array([0, *(each.stop for each in columns.values())]) for columns in pool.columns]

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
        sites = [self._row_ranks(site, names) for site in range(len(SITE_LINEARS))]
        factors: list[list[_RowFactors | None]] = [
            [
                (as_stored(self._pool.a[site][layer]), as_stored(self._pool.b[site][layer]), *ranks, self._ends[site])
                if ranks is not None
                else None
                for site, ranks in enumerate(sites)
            ]
            for layer in range(self._pool.shape.num_layers)
        ]
        return DecodeTerm(slice(first_row, first_row + len(names)), factors)

    def _row_ranks(self, site: int, names: Sequence[EngineName]) -> tuple[_Array, _Array, _Array] | None:
        """Return each row's first rank, its number of ranks, and which of the site's linears it adapts."""
        spans = [self._pool.span(site, name) or Span(0, 0) for name in names]
        if not any(span.width for span in spans):
            return None
        adapted = [[linear in self._pool.linears(name) for linear in SITE_LINEARS[site]] for name in names]
        return np.array([span.start for span in spans]), np.array([span.width for span in spans]), np.array(adapted)


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
        elif (row_factors := term.factors[layer][site]) is not None:
            # A view costs as much as a small kernel; usually every row decodes with an adapter.
            is_whole = term.rows == slice(0, len(x))
            inputs, outputs = (x, y) if is_whole else (x[term.rows], y[term.rows])
            add_rows(as_stored(inputs), as_stored(outputs), *row_factors)


def _add_prompts(rows: slice, factors: _Factors, bits: torch.Tensor | None, x: torch.Tensor, y: torch.Tensor) -> None:
    inputs, outputs = x[rows], y[rows]
    u = product(inputs, factors.a).view(len(inputs), factors.num_ranks, -1)
    # By linear, row, rank: matrix kernels take a u with gaps far more slowly than it is copied.
    u = u.permute(2, 0, 1).contiguous()
    if bits is not None:
        u.view(bits.dtype).bitwise_and_(bits)
    for place, b, columns in factors.linears:
        outputs[:, columns].addmm_(u[place], b)
