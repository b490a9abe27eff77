"""The base model's matrix products, with weights laid out once in the form oneDNN multiplies fastest."""

import functools

import torch
from torch.nn import functional

#: Rows that the packed layout is chosen for; other counts work too.
_ROWS_HINT = 16


class Linear:
    """``x @ weight.T + bias`` for a fixed weight [d_out, d_in]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.d_out, self.d_in = weight.shape
        self._bias = bias
        self._weight: torch.Tensor | None = None
        self._packed = _pack(weight)
        if self._packed is None:
            self._weight = weight.contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return [num_tokens, d_out] for x [num_tokens, d_in]."""
        if self._packed is not None:
            return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        assert self._weight is not None
        return functional.linear(x, self._weight, self._bias)


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return ``x @ weight.T`` for a weight as it lies; oneDNN's own operator starts sooner than PyTorch's."""
    if _has_onednn(weight.dtype):
        return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return functional.linear(x, weight)


def _pack(weight: torch.Tensor) -> torch.Tensor | None:
    """Return the weight in oneDNN's own layout, or None where this build or dtype has none."""
    if not _has_onednn(weight.dtype):
        return None
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS_HINT)


@functools.cache
def _has_onednn(dtype: torch.dtype) -> bool:
    """Whether this build has oneDNN's operators, for this dtype."""
    has_operators = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return has_operators and dtype in (torch.float32, torch.bfloat16)
