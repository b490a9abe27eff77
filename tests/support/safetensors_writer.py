"""Writes safetensors files with numpy alone; bfloat16 is given as float32 and cut to its upper half."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "I64": "<i8"}


def encode(values: np.ndarray, dtype: str) -> bytes:
    """Return the bytes of `values` in a safetensors dtype."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        cut = np.where(np.isfinite(values), rounded, bits) >> 16
        return cut.astype("<u2").tobytes()
    return np.ascontiguousarray(values).astype(_NUMPY[dtype]).tobytes()


def safetensors_bytes(
    tensors: Mapping[str, np.ndarray],
    *,
    dtype: str = "F32",
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Return a safetensors file of `tensors`, in name order, all in one dtype."""
    header: dict[str, object] = {"__metadata__": dict(metadata or {"format": "pt"})}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        part = encode(tensors[name], dtype)
        header[name] = {
            "dtype": dtype,
            "shape": list(tensors[name].shape),
            "data_offsets": [offset, offset + len(part)],
        }
        parts.append(part)
        offset += len(part)
    return pack(header, b"".join(parts))


def pack(header: object, body: bytes) -> bytes:
    """Return header and body as one file, whatever they say; the header is padded to 8 bytes."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], *, dtype: str = "F32") -> None:
    """Write `tensors` to `path`."""
    path.write_bytes(safetensors_bytes(tensors, dtype=dtype))
