"""Reads the header of a safetensors file without trusting one number in it.

Invariant: a `TensorEntry` lies wholly in the file, its bytes are its shape times its dtype, entries neither
overlap nor leave gaps, and nothing follows the last. Nothing is allocated by a size that the file states.

Source: safetensors format (8-byte little-endian header length, JSON header, tensor bytes).
"""

import math
from dataclasses import dataclass
from typing import Any, cast

from hotset.core.errors import VersionRefusedError
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal, shown

HEADER_BYTES_MAX = 4 << 20
TENSORS_MAX = 20_000
_DIMENSIONS_MAX = 8
_METADATA = "__metadata__"

#: Bytes of one element of each dtype of the format that is whole bytes.
DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: where its bytes lie in the file and how to read them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    #: Bytes from the start of the file; `end` is one past the last.
    start: int
    end: int


def parse_header(content: memoryview, file: str) -> dict[str, TensorEntry]:
    """Return the tensors of a safetensors file by name, in order of their bytes.

    Args:
        content: The whole file.
        file: Its name, for messages.

    Raises:
        VersionRefusedError: ``safetensors_invalid``, or ``json_invalid`` for the header's text.
    """
    size = content.nbytes
    if size < 8:
        raise _invalid(file, f"it has {size} bytes, too few for a header")
    length = int.from_bytes(content[:8], "little")
    if length > HEADER_BYTES_MAX or length > size - 8:
        limit = min(HEADER_BYTES_MAX, size - 8)
        raise _invalid(file, f"its header claims {length} bytes where at most {limit} can be")
    if length < 2 or content[8] != ord("{"):
        raise _invalid(file, "its header is not a JSON object")
    header = parse_object(content[8 : 8 + length], f"the header of {file}", bytes_max=HEADER_BYTES_MAX)
    _check_metadata(header.pop(_METADATA, {}), file)
    if len(header) > TENSORS_MAX:
        raise _invalid(file, f"it names {len(header)} tensors; at most {TENSORS_MAX} are read")
    entries = [_entry(name, value, 8 + length, file) for name, value in header.items()]
    entries.sort(key=lambda entry: (entry.start, entry.end))
    _check_layout(entries, 8 + length, size, file)
    return {entry.name: entry for entry in entries}


def _check_metadata(value: object, file: str) -> None:
    texts = list(cast(dict[str, object], value).values()) if isinstance(value, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise _invalid(file, f"its {_METADATA} is not a map of strings")


def _entry(name: str, value: object, origin: int, file: str) -> TensorEntry:
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    if set(fields) != {"dtype", "shape", "data_offsets"}:
        raise _invalid(file, f"tensor {shown(name)} has other entries than dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], _sizes(fields["shape"]), _sizes(fields["data_offsets"])
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise _invalid(file, f"tensor {shown(name)} has the unknown dtype {shown(dtype)}")
    if shape is None or len(shape) > _DIMENSIONS_MAX:
        raise _invalid(file, f"tensor {shown(name)} has a shape that is no list of sizes")
    if offsets is None or len(offsets) != 2:
        raise _invalid(file, f"tensor {shown(name)} has data_offsets that are no two positions")
    if offsets[1] - offsets[0] != math.prod(shape) * DTYPE_BYTES[dtype]:
        raise _invalid(file, f"tensor {shown(name)} has other bytes than its shape and dtype need")
    return TensorEntry(name, dtype, shape, origin + offsets[0], origin + offsets[1])


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    items = cast(list[object], value)
    sizes = tuple(item for item in items if type(item) is int and 0 <= item < 1 << 63)
    return sizes if len(sizes) == len(items) else None


def _check_layout(entries: list[TensorEntry], origin: int, size: int, file: str) -> None:
    position = origin
    for entry in entries:
        if entry.start != position:
            fault = "overlaps another" if entry.start < position else "leaves a gap before it"
            raise _invalid(file, f"tensor {shown(entry.name)} {fault}")
        position = entry.end
    if position > size:
        raise _invalid(file, f"it is cut off: {size} bytes, but its tensors end at {position}")
    if position < size:
        raise _invalid(file, f"{size - position} bytes follow the last tensor")


def _invalid(file: str, why: str) -> VersionRefusedError:
    message = f"{file} is not a well-formed safetensors file: {why}. Save or copy it again."
    return refusal(Refusal.SAFETENSORS_INVALID, message, file)
