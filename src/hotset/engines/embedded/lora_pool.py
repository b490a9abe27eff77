"""The LoRA matrices of all loaded adapters, packed along a rank axis.

Linears that read the same input form a site, as they are fused in the base. For each site the pool holds A
[num_layers, num_ranks, num_linears, d_in] and B [num_layers, num_ranks, sum of d_out], transposed and with its
scaling folded in. In each site that it adapts an adapter owns a span of ranks, the same in every layer; of a site
that it does not adapt it owns nothing, so a step reads no zeros for it. A linear that it leaves out is zero there.
Invariant (`check`): every rank that no adapter owns is zero everywhere.
"""

import torch

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.engines.embedded.adapter_files import StagedAdapter
from hotset.engines.embedded.rank_spans import RankSpans, Span

#: The sites of a layer, in the order of the forward pass.
QKV, OUT, GATE_UP, DOWN = range(4)
SITE_LINEARS = (LINEARS[:3], LINEARS[3:4], LINEARS[4:6], LINEARS[6:])


class LoraPool:
    """Slots for adapters of one base, in its serving dtype."""

    def __init__(self, shape: BaseShape, *, num_slots: int, rank_max: int, dtype: torch.dtype) -> None:
        self.shape = shape
        self.num_slots = num_slots
        self._spans = tuple(RankSpans(num_slots=num_slots, rank_max=rank_max) for _ in SITE_LINEARS)
        #: By site; see the module's words for the shapes.
        self.a: list[torch.Tensor] = []
        self.b: list[torch.Tensor] = []
        #: By site: which of the columns of B belong to which linear.
        self.columns: list[dict[str, slice]] = []
        #: Goes up with every change of what lies where, so that others know when to look again.
        self.generation = 0
        self._linears: dict[EngineName, frozenset[str]] = {}
        for spans, linears in zip(self._spans, SITE_LINEARS, strict=True):
            d_in = shape.linear_shape(linears[0])[1]
            ends = [0]
            for linear in linears:
                ends.append(ends[-1] + shape.linear_shape(linear)[0])
            sizes = (shape.num_layers, spans.num_ranks)
            self.a.append(torch.zeros((*sizes, len(linears), d_in), dtype=dtype))
            self.b.append(torch.zeros((*sizes, ends[-1]), dtype=dtype))
            self.columns.append({linear: slice(ends[place], ends[place + 1]) for place, linear in enumerate(linears)})

    def __contains__(self, name: EngineName) -> bool:
        return name in self._linears

    @property
    def names(self) -> tuple[EngineName, ...]:
        """Loaded adapters, in order of loading."""
        return tuple(self._linears)

    @property
    def is_full(self) -> bool:
        """Whether every slot is taken."""
        return len(self._linears) >= self.num_slots

    def linears(self, name: EngineName) -> frozenset[str]:
        """Return the linears that a loaded adapter adapts, in any layer."""
        return self._linears[name]

    def span(self, site: int, name: EngineName) -> Span | None:
        """Return a loaded adapter's ranks in a site, None where it adapts none of its linears."""
        return self._spans[site].get(name)

    def rank(self, name: EngineName) -> int:
        """Return the ranks that a loaded adapter has in its widest site."""
        return max(spans[name].width for spans in self._spans if name in spans)

    def position(self, name: EngineName) -> int:
        """Return where a loaded adapter lies, so that sorting by it brings neighbours together."""
        return next(spans[name].start for spans in self._spans if name in spans)

    def slot_bytes(self, name: EngineName) -> int:
        """Return the bytes that a loaded adapter occupies."""
        owned = [(site, spans[name].width) for site, spans in enumerate(self._spans) if name in spans]
        return sum(width * self._rank_bytes(site) for site, width in owned)

    def place(self, staged: StagedAdapter) -> None:
        """Copy an adapter into a free slot.

        Raises:
            LoadFailedError: no free slot.
        """
        if self.is_full:
            raise LoadFailedError(f"all {self.num_slots} adapter slots are taken.")
        for site, linears in enumerate(SITE_LINEARS):
            adapted = [linear for linear in linears if linear in staged.halves]
            if adapted:
                span = self._take(site, staged.engine_name, staged.rank)
                self._fill(site, slice(span.start, span.start + staged.rank), staged, adapted)
        self._linears[staged.engine_name] = frozenset(staged.halves)
        self.generation += 1

    def drop(self, name: EngineName) -> None:
        """Zero and free a loaded adapter's slot."""
        for site, spans in enumerate(self._spans):
            if name in spans:
                self._zero(site, spans.drop(name))
        del self._linears[name]
        self.generation += 1

    def check(self) -> None:
        """Assert the invariant, and that spans are sound."""
        assert len(self._linears) <= self.num_slots
        for site, spans in enumerate(self._spans):
            spans.check()
            adapting = {name for name, linears in self._linears.items() if linears.intersection(SITE_LINEARS[site])}
            assert set(spans.names) == adapting
            for pool in self._pools(site):
                for gap in spans.gaps():
                    assert not _ranks(pool, gap).any().item(), "a freed slot still holds numbers"

    def _pools(self, site: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a[site], self.b[site]

    def _rank_bytes(self, site: int) -> int:
        return sum(pool[:, 0].numel() * pool.dtype.itemsize for pool in self._pools(site))

    def _take(self, site: int, name: EngineName, rank: int) -> Span:
        spans = self._spans[site]
        span = spans.find(rank)
        if span is None:
            self._compact(site)
            span = spans.find(rank)
        assert span is not None, "a slot was free, so its ranks are"
        spans.take(name, span)
        return span

    def _fill(self, site: int, ranks: slice, staged: StagedAdapter, adapted: list[str]) -> None:
        for linear in adapted:
            half_a, half_b = staged.halves[linear]
            self.a[site][:, ranks, SITE_LINEARS[site].index(linear)] = half_a
            self.b[site][:, ranks, self.columns[site][linear]] = half_b

    def _zero(self, site: int, span: Span) -> None:
        for pool in self._pools(site):
            _ranks(pool, span).zero_()

    def _compact(self, site: int) -> None:
        for move in self._spans[site].compact():
            for pool in self._pools(site):
                content = _ranks(pool, move.source).clone()
                _ranks(pool, move.source).zero_()
                _ranks(pool, move.target).copy_(content)


def _ranks(pool: torch.Tensor, span: Span) -> torch.Tensor:
    return pool[:, span.start : span.stop]
