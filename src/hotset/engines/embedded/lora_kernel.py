# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false
"""One compiled loop that adds every decoding row's adapter to a site's output, reading only what the row uses.

For a row with adapter (A, B) it computes ``y += (A @ x) @ B`` in float32 and rounds once. A row's numbers depend on
that row alone, whatever else is in the batch. PyTorch would start four kernels for each site of each layer, which costs
more than the numbers they move.
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
def _prefetch(rows):
    """Ask for a few rows, which are too short for the processor to see by itself where they go on."""
    for row in rows:
        for i in range(0, len(row), _LINE):
            _prefetch_line(row, i)


@_compile()
def _multiply(inputs, a0, a1, a2, a3, u):
    """Set four entries of u; the inputs are read once for all of them."""
    u0 = u1 = u2 = u3 = np.float32(0.0)
    for i in range(len(inputs)):
        u0 += _widen(a0[i]) * inputs[i]
        u1 += _widen(a1[i]) * inputs[i]
        u2 += _widen(a2[i]) * inputs[i]
        u3 += _widen(a3[i]) * inputs[i]
    u[0], u[1], u[2], u[3] = u0, u1, u2, u3


@_compile()
def _add(u, b0, b1, b2, b3, sums):
    """Add four rows of B by weight; the sums are read and written once for all of them."""
    u0, u1, u2, u3 = u[0], u[1], u[2], u[3]
    for i in range(len(b0)):
        sums[i] += u0 * _widen(b0[i]) + u1 * _widen(b1[i]) + u2 * _widen(b2[i]) + u3 * _widen(b3[i])


def _signature(number: Any) -> Any:
    matrix, cube, index = number[:, ::1], number[:, :, ::1], types.int64[::1]
    return types.void(matrix, matrix, cube, matrix, index, index, types.boolean[:, ::1], index)


@_compile([_signature(number) for number in (types.float32, types.uint16, types.int16)])
def add_rows(x, y, a, b, firsts, counts, adapted, ends):
    """Add each row's adapter to y, in place. All arrays lie in C order, numbers as `as_stored` shows them.

    Args:
        x: [num_rows, d_in].
        y: [num_rows, d_out].
        a: [num_ranks, num_linears, d_in].
        b: [num_ranks, d_out].
        firsts: int64 [num_rows], where a row's ranks begin.
        counts: int64 [num_rows], how many it has, a multiple of `rank_spans.ALIGNMENT`; 0 leaves the row as it is.
        adapted: bool [num_rows, num_linears], which of the site's linears a row adapts.
        ends: int64 [num_linears + 1], where each linear's columns begin and end.

    Raises:
        TypeError: an array of another kind or order.
    """
    # Slices begin at 0: a loop whose index might be negative would have to ask at every step, and would be no vector's.
    inputs = np.empty(x.shape[1], np.float32)
    sums = np.empty(y.shape[1], np.float32)
    u = np.empty(max(counts), np.float32)
    for row in range(len(x)):
        first, count = firsts[row], counts[row]
        if count == 0:
            continue
        for i in range(len(inputs)):
            inputs[i] = _widen(x[row, i])
        for linear in range(len(ends) - 1):
            if not adapted[row, linear]:
                continue
            for at in range(0, count, ALIGNMENT):
                r = first + at
                _prefetch(a[r + ALIGNMENT : first + count][:ALIGNMENT, linear])
                _multiply(inputs, a[r, linear], a[r + 1, linear], a[r + 2, linear], a[r + 3, linear], u[at:])
            columns = slice(ends[linear], ends[linear + 1])
            _prefetch(b[first : first + ALIGNMENT, columns])
            outputs = y[row, columns]
            for i in range(len(outputs)):
                sums[i] = _widen(outputs[i])
            for at in range(0, count, ALIGNMENT):
                r = first + at
                _prefetch(b[r + ALIGNMENT : first + count][:ALIGNMENT, columns])
                _add(u[at:], b[r, columns], b[r + 1, columns], b[r + 2, columns], b[r + 3, columns], sums)
            for i in range(len(outputs)):
                outputs[i] = _narrow(sums[i], outputs[i])
