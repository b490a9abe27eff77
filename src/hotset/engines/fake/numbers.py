"""Whether an adapter's weights hold a NaN: engines load such weights without a word, and answer nobody after them."""

from dataclasses import dataclass

import msgspec
import numpy as np

from hotset.core.errors import LoadFailedError

#: As safetensors bounds a header.
_HEADER_BYTES_MAX = 100_000_000
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Kind:
    """One floating-point format, by its bits."""

    dtype: str
    exponent: int
    mantissa: int


_KINDS = {
    "F32": _Kind("<u4", 0x7F80_0000, 0x007F_FFFF),
    "F16": _Kind("<u2", 0x7C00, 0x03FF),
    "BF16": _Kind("<u2", 0x7F80, 0x007F),
}


class _Tensor(msgspec.Struct):
    dtype: str
    offsets: tuple[int, int] = msgspec.field(name="data_offsets")


def holds_nan(content: bytes) -> bool:
    """Return whether one of the numbers in a safetensors file is none.

    Raises:
        LoadFailedError: it is no such file, in vLLM's words.
    """
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + length
    if length > min(_HEADER_BYTES_MAX, len(content)):
        raise LoadFailedError("Error while deserializing header: header too large")
    try:
        header = msgspec.json.decode(content[_LENGTH_BYTES:begin], type=dict[str, msgspec.Raw])
        tensors = [msgspec.json.decode(raw, type=_Tensor) for name, raw in header.items() if name != "__metadata__"]
    except msgspec.DecodeError as error:
        raise LoadFailedError("Error while deserializing header: invalid JSON in header") from error
    values = memoryview(content)[begin:]
    return any(_has_nan(values[slice(*tensor.offsets)], tensor.dtype) for tensor in tensors)


def _has_nan(values: memoryview, dtype: str) -> bool:
    kind = _KINDS.get(dtype)
    if kind is None:
        return False
    bits = np.frombuffer(values, kind.dtype)
    return bool(((bits & kind.exponent == kind.exponent) & (bits & kind.mantissa != 0)).any())
