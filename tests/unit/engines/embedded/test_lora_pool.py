"""The pool's product for a mixed batch equals each row's own, and what is freed is gone."""

import random

import pytest
import torch

from hotset.core.base import LINEARS
from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.engines.embedded.adapter_files import StagedAdapter
from hotset.engines.embedded.lora_pool import DOWN, GATE_UP, OUT, QKV, LoraPool
from hotset.engines.embedded.lora_product import LoraTerms, add_lora
from tests.support.adapters import tiny_base_shape

_SHAPE = tiny_base_shape()
_SITES = {QKV: LINEARS[:3], OUT: LINEARS[3:4], GATE_UP: LINEARS[4:6], DOWN: LINEARS[6:]}


def make_pool(num_slots: int = 4, rank_max: int = 16) -> LoraPool:
    return LoraPool(_SHAPE, num_slots=num_slots, rank_max=rank_max, dtype=torch.float32)


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


@pytest.mark.parametrize("site", list(_SITES))
@pytest.mark.parametrize("layer", range(_SHAPE.num_layers))
def test_a_mixed_batch_equals_each_row_alone(site: int, layer: int) -> None:
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
    rows: list[StagedAdapter | None] = [
        None,
        None,
        *sorted(adapters * 2, key=lambda each: pool.spans[each.engine_name]),
    ]
    x, y = inputs(site, len(rows))
    wanted = expected(site, layer, x, y, rows)
    base_rows = y[:2].clone()
    terms = LoraTerms(pool)
    names = [staged.engine_name for staged in rows if staged is not None]
    add_lora([terms.mixed(2, names)], layer, site, x, y)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
    assert torch.equal(y[:2], base_rows)


@pytest.mark.parametrize("site", list(_SITES))
def test_adapters_far_apart_in_the_pool_are_multiplied_apart(site: int) -> None:
    pool = make_pool(num_slots=6, rank_max=64)
    adapters = [make_staged(number, rank) for number, rank in enumerate((5, 64, 64, 8, 64, 3))]
    for staged in adapters:
        pool.place(staged)
    for number in (1, 2, 4):
        pool.drop(name_of(number))
    rows = [adapters[0], adapters[0], adapters[3], adapters[5]]
    x, y = inputs(site, 6)
    wanted = expected(site, 0, x, y, [None, *rows, None])
    term = LoraTerms(pool).mixed(1, [staged.engine_name for staged in rows])
    assert len(term.ranges) == 2
    add_lora([term], 0, site, x, y)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)


def test_one_adapter_for_all_rows() -> None:
    pool = make_pool()
    staged = make_staged(1, 7)
    pool.place(staged)
    x, y = inputs(GATE_UP, 5)
    wanted = expected(GATE_UP, 0, x, y, [None, staged, staged, staged, None])
    add_lora([LoraTerms(pool).uniform(1, 3, staged.engine_name)], 0, GATE_UP, x, y)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("poison", [torch.inf, torch.nan, 3e38])
def test_a_row_that_overflows_reaches_no_other_row(poison: float) -> None:
    pool = make_pool()
    for staged in (make_staged(1, 4), make_staged(2, 4, fill=3e38), make_staged(3, 4)):
        pool.place(staged)
    terms, names = LoraTerms(pool), [name_of(1), name_of(2), name_of(3)]
    x, y = inputs(QKV, 4)
    clean_x, clean_y = x.clone(), y.clone()
    add_lora([terms.mixed(1, names)], 0, QKV, clean_x, clean_y)
    x[2] = poison
    add_lora([terms.mixed(1, names)], 0, QKV, x, y)
    assert not torch.isfinite(y[2]).all()
    assert torch.equal(y[[0, 1, 3]], clean_y[[0, 1, 3]])


def test_no_slot_is_a_refusal_that_changes_nothing() -> None:
    pool = make_pool(num_slots=1)
    pool.place(make_staged(1, 4))
    with pytest.raises(LoadFailedError, match="all 1 adapter slots"):
        pool.place(make_staged(2, 4))
    assert pool.spans.names == (name_of(1),)
    pool.check()


def test_slot_bytes_count_both_halves_of_all_linears() -> None:
    per_rank = sum(sum(_SHAPE.linear_shape(linear)) for linear in LINEARS) * _SHAPE.num_layers * 4
    assert make_pool().slot_bytes(6) == 8 * per_rank


@pytest.mark.parametrize("seed", range(3))
def test_random_loads_and_unloads_keep_every_product_right(seed: int) -> None:
    chance = random.Random(seed)
    pool = make_pool(num_slots=3, rank_max=12)
    terms = LoraTerms(pool)
    loaded: dict[EngineName, StagedAdapter] = {}
    for number in range(60):
        if pool.spans.is_full or (loaded and chance.random() < 0.4):
            name = chance.choice(list(loaded))
            pool.drop(name)
            del loaded[name]
        else:
            staged = make_staged(number, chance.randrange(1, 13), tuple(chance.sample(LINEARS, 3)))
            pool.place(staged)
            loaded[staged.engine_name] = staged
        pool.check()
        rows = sorted(loaded.values(), key=lambda each: pool.spans[each.engine_name])
        site = chance.choice(list(_SITES))
        x, y = inputs(site, len(rows), seed=number)
        wanted = expected(site, 1, x, y, list(rows))
        if rows:
            add_lora([terms.mixed(0, [staged.engine_name for staged in rows])], 1, site, x, y)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
