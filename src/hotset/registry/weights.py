"""The tensors of an adapter over one file or several shards: headers, places of bytes, and the values' range."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hotset.core.errors import VersionRefusedError
from hotset.registry.artifact import (
    PICKLED_WEIGHTS_FILE,
    SHARD_INDEX_FILE,
    WEIGHTS_FILE,
    Artifact,
    is_shard,
)
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.safetensors_header import TensorEntry, parse_header

#: Number formats of weights that are served.
SERVED_DTYPES = ("F32", "F16", "BF16")
_CHUNK_ELEMENTS = 1 << 20

#: Largest finite magnitude: (2 - 2^-m) * 2^e for m mantissa bits and largest exponent e. What does not exceed it
#: stays finite whatever roundings an engine makes on the way, since rounding keeps order.
_LARGEST = {
    "float32": (2 - 2.0**-23) * 2.0**127,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float16": (2 - 2.0**-10) * 2.0**15,
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor and the file that holds it."""

    file: str
    entry: TensorEntry


def read_tensors(artifact: Artifact) -> dict[str, StoredTensor]:
    """Return every tensor of the adapter by name.

    Raises:
        VersionRefusedError: there are no weights, or only pickled ones; a file is malformed; shards and index
            disagree.
    """
    shards = sorted(name for name in artifact.files if is_shard(name))
    has_index, has_single = SHARD_INDEX_FILE in artifact.files, WEIGHTS_FILE in artifact.files
    if has_single and (shards or has_index):
        message = f"Both {WEIGHTS_FILE} and shards are there. Leave one of the two."
        raise refusal(Refusal.WEIGHTS_AMBIGUOUS, message, WEIGHTS_FILE)
    if has_single:
        tensors = _read_file(artifact, WEIGHTS_FILE)
    elif shards or has_index:
        tensors = _read_shards(artifact, shards)
    else:
        raise _no_weights(artifact)
    if not tensors:
        message = "The weights hold no tensors; the adapter would do nothing. Save it again."
        raise refusal(Refusal.WEIGHTS_EMPTY, message, WEIGHTS_FILE)
    return tensors


def _no_weights(artifact: Artifact) -> VersionRefusedError:
    if PICKLED_WEIGHTS_FILE in artifact.ignored:
        message = f"The only weights are {PICKLED_WEIGHTS_FILE}, a pickle, which is never opened. Save safetensors."
        return refusal(Refusal.WEIGHTS_PICKLED, message, PICKLED_WEIGHTS_FILE)
    message = f"There is no {WEIGHTS_FILE}. Add the weights, saved as safetensors."
    return refusal(Refusal.WEIGHTS_MISSING, message, WEIGHTS_FILE)


def _read_file(artifact: Artifact, file: str) -> dict[str, StoredTensor]:
    entries = parse_header(artifact.files[file], file)
    return {name: StoredTensor(file, entry) for name, entry in entries.items()}


def _read_shards(artifact: Artifact, shards: list[str]) -> dict[str, StoredTensor]:
    if SHARD_INDEX_FILE not in artifact.files:
        raise _bad_shards(f"{SHARD_INDEX_FILE} is missing")
    index = parse_object(artifact.files[SHARD_INDEX_FILE], SHARD_INDEX_FILE)
    weight_map: Any = index.get("weight_map")
    if not isinstance(weight_map, dict):
        raise _bad_shards(f"{SHARD_INDEX_FILE} has no weight_map")
    places = cast(dict[str, object], weight_map)
    named = {file for file in places.values() if isinstance(file, str)}
    if named != set(shards):
        odd = min(named ^ set(shards))
        raise _bad_shards(f"{shown(odd)} is in the folder or in {SHARD_INDEX_FILE}, not in both")
    tensors: dict[str, StoredTensor] = {}
    for file in shards:
        for name, tensor in _read_file(artifact, file).items():
            if places.get(name) != file or name in tensors:
                raise _bad_shards(f"{shown(name)} lies in {file}, but {SHARD_INDEX_FILE} says otherwise")
            tensors[name] = tensor
    missing = next((name for name in places if name not in tensors), None)
    if missing is not None:
        raise _bad_shards(f"{shown(missing)} is in {SHARD_INDEX_FILE} but in no shard")
    return tensors


def _bad_shards(why: str) -> VersionRefusedError:
    message = f"The shards do not agree: {why}. Save the adapter again, best as one {WEIGHTS_FILE}."
    return refusal(Refusal.SHARDS_INVALID, message, SHARD_INDEX_FILE)


def peak_magnitude(content: memoryview, entry: TensorEntry) -> float:
    """Return the largest magnitude in a tensor (NaN if any value is NaN), in bounded memory.

    Args:
        content: The whole file.
        entry: Of one of `SERVED_DTYPES`.
    """
    peak = np.float32(0)
    width = 4 if entry.dtype == "F32" else 2
    step = _CHUNK_ELEMENTS * width
    for start in range(entry.start, entry.end, step):
        chunk = content[start : min(start + step, entry.end)]
        peak = np.maximum(peak, np.abs(decode(chunk, entry.dtype)).max())
    return float(peak)


def decode(chunk: memoryview | bytes, dtype: str) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Return the values of a run of bytes in one of `SERVED_DTYPES`, exactly, as float32."""
    if dtype == "F32":
        return np.frombuffer(chunk, dtype="<f4")
    if dtype == "F16":
        return np.frombuffer(chunk, dtype="<f2").astype(np.float32)
    bits = np.frombuffer(chunk, dtype="<u2").astype(np.uint32) << 16
    return bits.view(np.float32)


def check_values(name: str, peak: float, scaling: float, dtype: str) -> None:
    """Check that a tensor is finite as stored and, alone and times the scaling, in the serving dtype.

    Args:
        name: Of the tensor.
        peak: Its largest magnitude.
        scaling: What multiplies it, where an engine folds the scaling into it; 1 otherwise.
        dtype: ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        VersionRefusedError: ``values_not_finite`` or ``values_overflow``.
    """
    if not math.isfinite(peak):
        message = f"{shown(name)} holds NaN or infinity. Train again with a lower learning rate or in float32."
        raise refusal(Refusal.VALUES_NOT_FINITE, message, name)
    largest = peak * max(abs(scaling), 1.0)
    if largest > _LARGEST[dtype]:
        message = (
            f"{shown(name)} reaches {largest:.4g} with its scaling, which is infinite in {dtype}, the serving dtype. "
            "Serve it in a wider dtype or train it with smaller weights."
        )
        raise refusal(Refusal.VALUES_OVERFLOW, message, name)
