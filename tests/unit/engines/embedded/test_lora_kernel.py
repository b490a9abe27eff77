"""The compiled loop in every dtype: widened exactly, summed in float32, rounded once as PyTorch rounds."""

import numpy as np
import pytest
import torch

from hotset.engines.embedded.lora_kernel import add_blocks, as_stored

_DTYPES = [torch.float32, torch.bfloat16, torch.float16]
_ENDS = np.array([0, 24, 53])


def arrays(dtype: torch.dtype, num_rows: int = 5) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = {"x": (num_rows, 37), "y": (num_rows, 53), "a": (40, 2, 37), "b": (40, 53)}
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def add(given: dict[str, torch.Tensor], blocks: list[tuple[int, int, int, int]], adapted: list[list[bool]]) -> None:
    numbers = (as_stored(given[name]) for name in ("x", "y", "a", "b"))
    add_blocks(*numbers, np.array(blocks), np.array(adapted), _ENDS)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_each_block_gets_its_own_ranks_and_linears(dtype: torch.dtype) -> None:
    given = arrays(dtype, num_rows=14)
    blocks = [(0, 1, 0, 4), (1, 1, 4, 12), (3, 5, 20, 8), (9, 4, 28, 12), (13, 1, 0, 4)]
    adapted = [[True, True], [True, False], [True, True], [False, True], [False, False]]
    x, wanted, a, b = (given[name].double() for name in ("x", "y", "a", "b"))
    for (first_row, num_rows, first, num_ranks), linears in zip(blocks, adapted, strict=True):
        rows, ranks = slice(first_row, first_row + num_rows), slice(first, first + num_ranks)
        for linear in range(2):
            columns = slice(_ENDS[linear], _ENDS[linear + 1])
            if linears[linear]:
                wanted[rows, columns] += (x[rows] @ a[ranks, linear].t()) @ b[ranks, columns]
    before = given["y"].clone()
    add(given, blocks, adapted)
    precision = torch.finfo(dtype).eps
    torch.testing.assert_close(given["y"].double(), wanted, rtol=precision, atol=100 * torch.finfo(torch.float32).eps)
    assert torch.equal(given["y"][[2, 8, 13]], before[[2, 8, 13]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_number_is_widened_exactly_and_comes_back(dtype: torch.dtype) -> None:
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)
    y = every.reshape(-1, 64).clone()
    num_rows, width = y.shape
    zeros = torch.zeros((4, 1, 1), dtype=dtype), torch.zeros((4, width), dtype=dtype)
    x = torch.zeros((num_rows, 1), dtype=dtype)
    block = np.array([[0, num_rows, 0, 4]]), np.ones((1, 1), bool)
    add_blocks(as_stored(x), as_stored(y), as_stored(zeros[0]), as_stored(zeros[1]), *block, np.array([0, width]))
    back, is_number = y.reshape(-1), ~torch.isnan(every)
    assert torch.equal(back[is_number], every[is_number] + 0)
    assert torch.isnan(back[~is_number]).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_rounded_as_pytorch_rounds(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(4096, generator=generator) * torch.logspace(-3, 4, 4096)
    # Between two neighbours and exactly in the middle of them, up and down.
    low = values.to(dtype).float()
    high = torch.nextafter(values.to(dtype), torch.tensor(torch.inf, dtype=dtype)).float()
    wanted = ((low + high) / 2).to(dtype)
    y = low.to(dtype).reshape(1, -1)
    half = ((high - low) / 2).to(dtype).reshape(1, -1)
    fits = (half.float() == ((high - low) / 2)).reshape(-1)
    b = torch.cat([half, torch.zeros((3, 4096), dtype=dtype)])
    a = torch.tensor([1.0, 0, 0, 0], dtype=dtype).reshape(4, 1, 1)
    one_row = np.array([[0, 1, 0, 4]]), np.ones((1, 1), bool)
    add_blocks(
        as_stored(torch.ones((1, 1), dtype=dtype)),
        as_stored(y),
        as_stored(a),
        as_stored(b),
        *one_row,
        np.array([0, 4096]),
    )
    assert fits.sum() > 2000
    assert torch.equal(y[0, fits], wanted[fits])


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_overflows_stays_in_its_row(dtype: torch.dtype, poison: float) -> None:
    given = arrays(dtype)
    clean = {name: each.clone() for name, each in given.items()}
    blocks, adapted = [(0, 2, 0, 4), (2, 1, 4, 8), (3, 2, 12, 4)], [[True, True]] * 3
    add(clean, blocks, adapted)
    given["x"][2, 0] = poison
    add(given, blocks, adapted)
    assert not torch.isfinite(given["y"][2]).any()
    assert torch.equal(given["y"][[0, 1, 3, 4]], clean["y"][[0, 1, 3, 4]])


def test_an_array_that_lies_otherwise_is_refused() -> None:
    given = arrays(torch.float32)
    given["x"] = given["x"].t().contiguous().t()
    with pytest.raises(TypeError):
        add(given, [(0, 5, 0, 4)], [[True, True]])
