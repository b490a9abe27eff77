"""The pool's product for a mixed batch equals each row's own, and what is freed is gone."""

import random
import sys

import pytest
import torch

from hotset.core.base import LINEARS
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.engines.embedded.adapter_files import StagedAdapter
from hotset.engines.embedded.lora_pool import DOWN, GATE_UP, OUT, QKV, LoraPool
from hotset.engines.embedded.lora_product import Block, KernelTerm, LoraTerms, ProductTerm, add_lora
from hotset.engines.embedded.rank_spans import aligned
from tests.support.adapters import tiny_base_shape

_SHAPE = tiny_base_shape()
_SITES = {QKV: LINEARS[:3], OUT: LINEARS[3:4], GATE_UP: LINEARS[4:6], DOWN: LINEARS[6:]}


def make_pool(num_slots: int = 4, rank_max: int = 16, dtype: torch.dtype = torch.float32) -> LoraPool:
    return LoraPool(_SHAPE, num_slots=num_slots, rank_max=rank_max, dtype=dtype)


def make_staged(number: int, rank: int, linears: tuple[str, ...] = LINEARS, fill: float | None = None) -> StagedAdapter:
    generator = torch.Generator().manual_seed(number)

    def half(width: int) -> torch.Tensor:
        values = torch.randn((_SHAPE.num_layers, rank, width), generator=generator)
        return values if fill is None else torch.full_like(values, fill)

    halves = {
        linear: (half(_SHAPE.linear_shape(linear)[1]), half(_SHAPE.linear_shape(linear)[0])) for linear in linears
    }
    return StagedAdapter(name_of(number), rank, len(linears) * _SHAPE.num_layers, halves)


def name_of(number: int) -> EngineName:
    return EngineName(f"hs-{number:032x}")


def inputs(site: int, rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    d_in = _SHAPE.linear_shape(_SITES[site][0])[1]
    d_out = sum(_SHAPE.linear_shape(linear)[0] for linear in _SITES[site])
    return torch.randn((rows, d_in), generator=generator), torch.randn((rows, d_out), generator=generator)


def expected(site: int, layer: int, x: torch.Tensor, y: torch.Tensor, rows: list[StagedAdapter | None]) -> torch.Tensor:
    outputs = y.clone()
    for row, staged in enumerate(rows):
        column = 0
        for linear in _SITES[site]:
            width = _SHAPE.linear_shape(linear)[0]
            if staged is not None and linear in staged.halves:
                half_a, half_b = staged.halves[linear]
                outputs[row, column : column + width] += x[row] @ half_a[layer].t() @ half_b[layer]
            column += width
    return outputs


_NEVER, _ALWAYS = sys.maxsize, 0


@pytest.mark.parametrize("site", list(_SITES))
@pytest.mark.parametrize("layer", range(_SHAPE.num_layers))
@pytest.mark.parametrize("product_min", [_NEVER, _ALWAYS, 200])
def test_a_mixed_batch_equals_each_row_alone(site: int, layer: int, product_min: int) -> None:
    pool = make_pool(num_slots=8, rank_max=64)
    adapters = [
        make_staged(1, 16),
        make_staged(2, 3, LINEARS[:1]),
        make_staged(3, 64, LINEARS[2:6]),
        make_staged(4, 5),
        make_staged(5, 40, LINEARS[5:]),
    ]
    for staged in adapters:
        pool.place(staged)
    blocks: list[Block] = []
    rows: list[StagedAdapter | None] = [None, None]
    for number, staged in enumerate(random.Random(7).sample(adapters * 3, 15)):
        num_rows = (1, 1, 4, 7)[number % 4]
        blocks.append(Block(staged.engine_name, len(rows), num_rows))
        rows += [staged] * num_rows
    rows.append(None)
    x, y = inputs(site, len(rows))
    wanted = expected(site, layer, x, y, rows)
    base_rows = y[[0, 1, -1]].clone()
    terms = LoraTerms(pool, product_min=product_min)
    add_lora(terms.of(blocks), layer, site, x, y)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
    assert torch.equal(y[[0, 1, -1]], base_rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_block_is_the_same_to_the_bit_alone_and_among_others(dtype: torch.dtype) -> None:
    pool = make_pool(num_slots=6, rank_max=64, dtype=dtype)
    for number, rank in enumerate((5, 64, 1, 8, 40, 3)):
        pool.place(make_staged(number, rank))
    pool.drop(name_of(1))
    names = [name_of(number) for number in (3, 0, 4, 0, 5, 2)]
    terms = LoraTerms(pool)
    for site in _SITES:
        x, y = (each.to(dtype) for each in inputs(site, len(names) + 2))
        together = y.clone()
        add_lora(terms.of([Block(name, row, 1) for row, name in enumerate(names, start=1)]), 0, site, x, together)
        for row, name in enumerate(names, start=1):
            alone = y[row : row + 1].clone()
            add_lora(terms.of([Block(name, 0, 1)]), 0, site, x[row : row + 1], alone)
            assert torch.equal(alone[0], together[row])
        assert torch.equal(together[[0, -1]], y[[0, -1]])


def test_neighbours_of_one_adapter_are_one_block_and_long_ones_take_products() -> None:
    pool = make_pool(rank_max=256)
    for staged in (make_staged(1, 200), make_staged(2, 4)):
        pool.place(staged)
    terms = LoraTerms(pool)
    joined = terms.of([Block(name_of(1), 1, 2), Block(name_of(1), 3, 4)])
    assert [type(term) for term in joined] == [ProductTerm]
    apart = terms.of([Block(name_of(1), 1, 2), Block(name_of(1), 4, 3), Block(name_of(2), 7, 4)])
    assert [type(term) for term in apart] == [KernelTerm]


def test_what_was_made_for_a_batch_is_kept_until_the_pool_changes() -> None:
    pool = make_pool()
    pool.place(make_staged(1, 4))
    terms, blocks = LoraTerms(pool), [Block(name_of(1), 0, 1)]
    made = terms.of(blocks)
    assert terms.of(list(blocks)) is made
    pool.place(make_staged(2, 4))
    assert terms.of(blocks) is not made


@pytest.mark.parametrize("poison", [torch.inf, torch.nan, 3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("product_min", [_NEVER, _ALWAYS])
def test_a_row_that_overflows_reaches_no_other_block(poison: float, dtype: torch.dtype, product_min: int) -> None:
    pool = make_pool(dtype=dtype)
    for staged in (make_staged(1, 4), make_staged(2, 4, fill=3e38), make_staged(3, 4)):
        pool.place(staged)
    blocks = [Block(name_of(number), number, 1) for number in (1, 2, 3)]
    made = LoraTerms(pool, product_min=product_min).of(blocks)
    x, y = (each.to(dtype) for each in inputs(QKV, 4))
    clean_x, clean_y = x.clone(), y.clone()
    add_lora(made, 0, QKV, clean_x, clean_y)
    x[2] = poison
    add_lora(made, 0, QKV, x, y)
    assert not torch.isfinite(y[2]).all()
    assert torch.isfinite(y[[0, 1, 3]]).all()
    assert torch.equal(y[[0, 1, 3]], clean_y[[0, 1, 3]])


def test_no_slot_is_a_refusal_that_changes_nothing() -> None:
    pool = make_pool(num_slots=1)
    pool.place(make_staged(1, 4))
    with pytest.raises(LoadFailedError, match="all 1 adapter slots"):
        pool.place(make_staged(2, 4))
    assert pool.names == (name_of(1),)
    pool.check()


@pytest.mark.parametrize("linears", [LINEARS, LINEARS[:1], LINEARS[2:5]])
def test_slot_bytes_count_both_halves_of_the_adapted_sites(linears: tuple[str, ...]) -> None:
    pool = make_pool()
    pool.place(make_staged(1, 6, linears))
    sites = [site for site in _SITES.values() if set(site) & set(linears)]
    per_rank = sum(sum(_SHAPE.linear_shape(linear)) for site in sites for linear in site) * _SHAPE.num_layers * 4
    assert pool.slot_bytes(name_of(1)) == 8 * per_rank


def test_slots_together_take_what_the_pool_does() -> None:
    pool = LoraPool(_SHAPE, num_slots=3, rank_max=6, dtype=torch.float32)
    assert sum(tensor.nbytes for tensor in (*pool.a, *pool.b)) == 3 * _SHAPE.lora_bytes(aligned(6), 4)


@pytest.mark.parametrize("seed", range(3))
def test_random_loads_and_unloads_keep_every_product_right(seed: int) -> None:
    chance = random.Random(seed)
    pool = make_pool(num_slots=3, rank_max=12)
    terms = LoraTerms(pool)
    loaded: dict[EngineName, StagedAdapter] = {}
    for number in range(60):
        if pool.is_full or (loaded and chance.random() < 0.4):
            name = chance.choice(list(loaded))
            pool.drop(name)
            del loaded[name]
        else:
            staged = make_staged(number, chance.randrange(1, 13), tuple(chance.sample(LINEARS, 3)))
            pool.place(staged)
            loaded[staged.engine_name] = staged
        pool.check()
        rows = chance.sample(list(loaded.values()), len(loaded))
        site = chance.choice(list(_SITES))
        x, y = inputs(site, len(rows), seed=number)
        wanted = expected(site, 1, x, y, list(rows))
        if rows:
            add_lora(terms.of([Block(each.engine_name, row, 1) for row, each in enumerate(rows)]), 1, site, x, y)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
