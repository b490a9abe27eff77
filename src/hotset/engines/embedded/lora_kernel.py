# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false
"""One compiled loop that adds every row's adapter to a site's output, reading only what the rows use.

For rows x with adapter (A, B) it computes ``y += (x @ A.T) @ B`` in float32 and rounds once. Rows that follow one
another with one adapter are a block: what is read of A and B serves four rows at a time. A block's numbers depend on it
alone, whatever else is in the batch. PyTorch would start four kernels for each site of each layer, which costs more
than the numbers they move.
Numba compiles it for this processor when an engine first starts, and keeps the result beside this file or in the user's
cache folder. It knows neither bfloat16 nor, on a processor, float16, so these come as integers that hold their bits
(`as_stored`), unsigned and signed so that the types tell them apart, and are widened and rounded here.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from hotset.engines.embedded.rank_spans import ALIGNMENT

_FLOAT, _WORD, _HALF, _SHORT = ir.FloatType(), ir.IntType(32), ir.HalfType(), ir.IntType(16)
_POINTER = ir.IntType(8).as_pointer()
#: Elements of 16 bits in a cache line; of float32 every second line is asked for, and the processor adds its neighbour.
_LINE = 32
_VIEWS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}


def as_stored(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor's own memory as an array that `add_rows` takes."""
    view = _VIEWS.get(tensor.dtype)
    return (tensor if view is None else tensor.view(view)).numpy()


def _compile(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return Numba's decorator; what it compiles is kept where a folder for that can be written."""
    # Sums may be reordered and fused, so that they vectorise; infinities and NaN keep their meaning.
    options: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(*signatures, cache=True, **options)(function)
        except RuntimeError:  # no folder to keep it in: it is compiled at each start
            return numba.njit(*signatures, **options)(function)

    return decorate


@intrinsic
def _widen(_context, number):
    """Return a stored number as float32: a bfloat16 is the upper half of one."""

    def generate(_context, builder, _signature, args):
        if number == types.uint16:
            return builder.bitcast(builder.shl(builder.zext(args[0], _WORD), ir.Constant(_WORD, 16)), _FLOAT)
        if number == types.int16:
            return builder.fpext(builder.bitcast(args[0], _HALF), _FLOAT)
        return args[0]

    return types.float32(number), generate


@intrinsic
def _narrow(_context, _number, like):
    """Return a float32 as the stored kind of number that `like` is, rounded to nearest, ties to even."""

    def generate(_context, builder, _signature, args):
        if like == types.uint16:
            word = builder.bitcast(args[0], _WORD)
            odd = builder.and_(builder.lshr(word, ir.Constant(_WORD, 16)), ir.Constant(_WORD, 1))
            rounded = builder.lshr(
                builder.add(builder.add(word, ir.Constant(_WORD, 0x7FFF)), odd), ir.Constant(_WORD, 16)
            )
            is_nan = builder.fcmp_unordered("uno", args[0], args[0])
            return builder.trunc(builder.select(is_nan, ir.Constant(_WORD, 0x7FC0), rounded), _SHORT)
        if like == types.int16:
            return builder.bitcast(builder.fptrunc(args[0], _HALF), _SHORT)
        return args[0]

    return like(types.float32, like), generate


@intrinsic
def _prefetch_line(_context, array, index):
    """Ask for the cache line of one element; nothing waits for it."""

    def generate(context, builder, signature, args):
        first = make_array(signature.args[0])(context, builder, args[0]).data
        line = builder.bitcast(builder.gep(first, [args[1]]), _POINTER)
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _WORD, _WORD, _WORD])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To read, to be kept in every cache, numbers and not instructions.
        builder.call(prefetch, [line, *(ir.Constant(_WORD, each) for each in (0, 3, 1))])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate


@_compile()
def _prefetch(*rows):
    """Ask for a few rows, which are too short for the processor to see by itself where they go on."""
    for row in rows:
        for i in range(0, len(row), _LINE):
            _prefetch_line(row, i)


@_compile()
def _multiply(x, a0, a1, a2, a3, u):
    """Set u [num_rows, 4] for rows x and four ranks; a row is read once for all of them."""
    for row in range(len(u)):
        inputs = x[row]
        u0 = u1 = u2 = u3 = np.float32(0.0)
        for i in range(len(inputs)):
            u0 += _widen(a0[i]) * inputs[i]
            u1 += _widen(a1[i]) * inputs[i]
            u2 += _widen(a2[i]) * inputs[i]
            u3 += _widen(a3[i]) * inputs[i]
        u[row, 0], u[row, 1], u[row, 2], u[row, 3] = u0, u1, u2, u3


@_compile()
def _add(u, b0, b1, b2, b3, sums):
    """Add four rows of B by weight to each row's sums, which are read and written once for all of them."""
    for row in range(len(u)):
        total = sums[row]
        u0, u1, u2, u3 = u[row, 0], u[row, 1], u[row, 2], u[row, 3]
        for i in range(len(b0)):
            total[i] += u0 * _widen(b0[i]) + u1 * _widen(b1[i]) + u2 * _widen(b2[i]) + u3 * _widen(b3[i])


@_compile()
def _multiply_linear(x, a, linear, first, last, u):
    """Set u [num_rows, last - first] for rows x and the ranks of one linear."""
    for rank in range(first, last, ALIGNMENT):
        if rank + ALIGNMENT < last:
            _prefetch(a[rank + 4, linear], a[rank + 5, linear], a[rank + 6, linear], a[rank + 7, linear])
        four = u[:, rank - first : rank - first + ALIGNMENT]
        _multiply(x, a[rank, linear], a[rank + 1, linear], a[rank + 2, linear], a[rank + 3, linear], four)


@_compile()
def _add_linear(u, b, columns, first, last, sums):
    """Add the ranks' rows of B, of one linear's columns, to the sums [num_rows, width]."""
    for rank in range(first, last, ALIGNMENT):
        if rank + ALIGNMENT < last:
            _prefetch(b[rank + 4, columns], b[rank + 5, columns], b[rank + 6, columns], b[rank + 7, columns])
        four = u[:, rank - first : rank - first + ALIGNMENT]
        _add(four, b[rank, columns], b[rank + 1, columns], b[rank + 2, columns], b[rank + 3, columns], sums)


def _signature(number: Any) -> Any:
    matrix, cube = number[:, ::1], number[:, :, ::1]
    return types.void(matrix, matrix, cube, matrix, types.int64[:, ::1], types.boolean[:, ::1], types.int64[::1])


@_compile([_signature(number) for number in (types.float32, types.uint16, types.int16)])
def add_blocks(x, y, a, b, blocks, adapted, ends):
    """Add each block's adapter to its rows of y, in place.

    All arrays lie in C order, numbers as `as_stored` shows them.

    Args:
        x: [num_rows, d_in].
        y: [num_rows, d_out].
        a: [num_ranks, num_linears, d_in].
        b: [num_ranks, d_out].
        blocks: int64 [num_blocks, 4]: each one's first row, number of rows, first rank, and number of ranks, which is
            a multiple of `rank_spans.ALIGNMENT`.
        adapted: bool [num_blocks, num_linears], which of the site's linears a block adapts.
        ends: int64 [num_linears + 1], where each linear's columns begin and end.

    Raises:
        TypeError: an array of another kind or order.
    """
    # Slices begin at 0: a loop whose index might be negative would have to ask at every step, and would be no vector's.
    rows_max = max(blocks[:, 1])
    inputs = np.empty((rows_max, x.shape[1]), np.float32)
    u = np.empty((rows_max, max(blocks[:, 3])), np.float32)
    sums = np.empty((rows_max, y.shape[1]), np.float32)
    for block in range(len(blocks)):
        first_row, num_rows, first, num_ranks = blocks[block]
        for row in range(num_rows):
            given, wanted = x[first_row + row], inputs[row]
            for i in range(len(given)):
                wanted[i] = _widen(given[i])
        for linear in range(len(ends) - 1):
            if not adapted[block, linear]:
                continue
            columns = slice(ends[linear], ends[linear + 1])
            _multiply_linear(inputs[:num_rows], a, linear, first, first + num_ranks, u[:num_rows])
            _prefetch(b[first, columns], b[first + 1, columns], b[first + 2, columns], b[first + 3, columns])
            for row in range(num_rows):
                outputs, total = y[first_row + row, columns], sums[row]
                for i in range(len(outputs)):
                    total[i] = _widen(outputs[i])
            _add_linear(u[:num_rows], b, columns, first, first + num_ranks, sums[:num_rows])
            for row in range(num_rows):
                outputs, total = y[first_row + row, columns], sums[row]
                for i in range(len(outputs)):
                    outputs[i] = _narrow(total[i], outputs[i])
