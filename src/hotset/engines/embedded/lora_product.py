"""What a batch's adapters add to the base, computed for all of its rows in a few calls for each site.

Rows that follow one another with one adapter are a block. All blocks of the batch go to `lora_kernel` in one call a
site, whatever their adapters; only long prompts, where matrix products win, take products of their own. Nothing of one
block reaches another. Rows of the bare base are in no block.
Source: batching over one pool is the idea of Punica (arXiv 2310.18547); the steps are our own, chosen because small
matrix products cost more to start than to compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hotset.core.ids import EngineName
from hotset.engines.embedded.linear import product
from hotset.engines.embedded.lora_kernel import add_blocks, as_stored
from hotset.engines.embedded.lora_pool import SITE_LINEARS, LoraPool

#: From so many numbers of u on a block takes matrix products: about where both take the same time on two cores.
PRODUCT_MIN = 1024
#: Batches whose terms are kept: a decoding batch stays the same for many steps.
_KEPT_MAX = 64

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of one adapter."""

    name: EngineName
    first_row: int
    num_rows: int

    @property
    def rows(self) -> slice:
        """The rows, as an index."""
        return slice(self.first_row, self.first_row + self.num_rows)


@dataclass(frozen=True, slots=True)
class KernelTerm:
    """Any number of blocks, in one call a site."""

    #: By layer, by site, what the kernel takes after x and y; None where no block adapts it.
    factors: list[list[tuple[_Array, ...] | None]]


@dataclass(frozen=True, slots=True)
class _Factors:
    """What one layer's site takes for a block on its own."""

    num_ranks: int
    #: [num_ranks * num_linears, d_in].
    a: torch.Tensor
    #: For each adapted linear: its place in the site, B [num_ranks, d_out] and its columns.
    linears: list[tuple[int, torch.Tensor, slice]]


@dataclass(frozen=True, slots=True)
class ProductTerm:
    """One block, in products of its own."""

    rows: slice
    #: By layer, by site; None where the adapter leaves it alone.
    factors: list[list[_Factors | None]]


LoraTerm = KernelTerm | ProductTerm


class LoraTerms:
    """Makes the terms of batches over one pool, and keeps those of batches that come again."""

    def __init__(self, pool: LoraPool, *, product_min: int = PRODUCT_MIN) -> None:
        self._pool = pool
        self._product_min = product_min
        self._generation = -1
        self._kept: dict[tuple[Block, ...], list[LoraTerm]] = {}
        self._ends = [np.array([0, *(each.stop for each in columns.values())]) for columns in pool.columns]

    def of(self, blocks: Sequence[Block]) -> list[LoraTerm]:
        """Return the terms of blocks in the order of their rows; neighbours of one adapter become one."""
        if self._generation != self._pool.generation or len(self._kept) > _KEPT_MAX:
            self._generation = self._pool.generation
            self._kept.clear()
        joined = tuple(_joined(blocks))
        if joined not in self._kept:
            self._kept[joined] = self._make(joined)
        return self._kept[joined]

    def _make(self, blocks: Sequence[Block]) -> list[LoraTerm]:
        long = [block for block in blocks if block.num_rows * self._pool.rank(block.name) >= self._product_min]
        short = [block for block in blocks if block not in long]
        products: list[LoraTerm] = [self._product_term(block) for block in long]
        return [self._kernel_term(short), *products] if short else products

    def _kernel_term(self, blocks: Sequence[Block]) -> KernelTerm:
        sites = [self._blocks(site, blocks) for site in range(len(SITE_LINEARS))]
        return KernelTerm(
            [
                [
                    None
                    if arrays is None
                    else (
                        as_stored(self._pool.a[site][layer]),
                        as_stored(self._pool.b[site][layer]),
                        *arrays,
                        self._ends[site],
                    )
                    for site, arrays in enumerate(sites)
                ]
                for layer in range(self._pool.shape.num_layers)
            ]
        )

    def _blocks(self, site: int, blocks: Sequence[Block]) -> tuple[_Array, _Array] | None:
        """Return where the rows and the ranks of the blocks that adapt a site are, and which linears they adapt."""
        spans = [(block, span) for block in blocks if (span := self._pool.span(site, block.name)) is not None]
        if not spans:
            return None
        places = [(block.first_row, block.num_rows, span.start, span.width) for block, span in spans]
        adapted = [[linear in self._pool.linears(block.name) for linear in SITE_LINEARS[site]] for block, _ in spans]
        return np.array(places), np.array(adapted)

    def _product_term(self, block: Block) -> ProductTerm:
        factors = [
            [self._product_factors(layer, site, block.name) for site in range(len(SITE_LINEARS))]
            for layer in range(self._pool.shape.num_layers)
        ]
        return ProductTerm(block.rows, factors)

    def _product_factors(self, layer: int, site: int, name: EngineName) -> _Factors | None:
        span = self._pool.span(site, name)
        if span is None:
            return None
        ranks = slice(span.start, span.stop)
        b = self._pool.b[site][layer, ranks]
        linears = [
            (place, b[:, columns], columns)
            for place, (linear, columns) in enumerate(self._pool.columns[site].items())
            if linear in self._pool.linears(name)
        ]
        return _Factors(len(b), self._pool.a[site][layer, ranks].flatten(0, 1), linears)


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
        if isinstance(term, KernelTerm):
            if (arrays := term.factors[layer][site]) is not None:
                add_blocks(as_stored(x), as_stored(y), *arrays)
        elif (factors := term.factors[layer][site]) is not None:
            _add_product(factors, x[term.rows], y[term.rows])


def _add_product(factors: _Factors, x: torch.Tensor, y: torch.Tensor) -> None:
    u = product(x, factors.a).view(len(x), factors.num_ranks, -1)
    # By linear, row, rank: matrix kernels take a u with gaps far more slowly than it is copied.
    u = u.permute(2, 0, 1).contiguous()
    for place, b, columns in factors.linears:
        y[:, columns].addmm_(u[place], b)


def _joined(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with neighbours of one adapter made one."""
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1].name == block.name and joined[-1].rows.stop == block.first_row:
            joined[-1] = replace(joined[-1], num_rows=joined[-1].num_rows + block.num_rows)
        else:
            joined.append(block)
    return joined
