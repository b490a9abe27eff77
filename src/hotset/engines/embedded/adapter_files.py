"""From a verified version's folder to tensors in the serving dtype, off the stepping thread.

Every file is read once; its digest is checked on the very bytes that are parsed, so nothing can change in between.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors

from hotset.core.base import LINEARS, BaseShape
from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest, EngineName
from hotset.core.messages import AdapterLoad, ModuleSpec


@dataclass(frozen=True, slots=True)
class StagedAdapter:
    """One version, ready to be copied into a slot."""

    engine_name: EngineName
    rank: int
    num_modules: int
    #: By linear: A [num_layers, rank, d_in], and B transposed with its scaling [num_layers, rank, d_out];
    #: zero where a layer or a rank is not adapted.
    halves: Mapping[str, tuple[torch.Tensor, torch.Tensor]]


def stage_adapter(load: AdapterLoad, shape: BaseShape, rank_max: int, dtype: torch.dtype) -> StagedAdapter:
    """Read, check and convert a version's tensors.

    Raises:
        LoadFailedError: bytes other than `load.files` says, or tensors that don't fit the base or the slot.
    """
    if not load.modules:
        raise LoadFailedError("the version adapts no module.")
    rank = max(module.rank for module in load.modules)
    if not 1 <= rank <= rank_max:
        raise LoadFailedError(f"rank {rank} does not fit a slot of rank {rank_max}.")
    tensors = {name: _read(Path(load.folder), name, load.files) for name in sorted({m.file for m in load.modules})}
    halves: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for module in load.modules:
        layer, linear = _place_of(module, shape)
        if linear not in halves:
            d_out, d_in = shape.linear_shape(linear)
            halves[linear] = (
                torch.zeros((shape.num_layers, rank, d_in), dtype=dtype),
                torch.zeros((shape.num_layers, rank, d_out), dtype=dtype),
            )
        half_a, half_b = _checked(module, tensors[module.file], shape.linear_shape(linear), dtype)
        halves[linear][0][layer, : module.rank] = half_a
        halves[linear][1][layer, : module.rank] = half_b
    return StagedAdapter(load.engine_name, rank, len(load.modules), halves)


def _read(folder: Path, name: str, files: Mapping[str, Digest]) -> dict[str, torch.Tensor]:
    if name not in files or Path(name).name != name:
        raise LoadFailedError(f"file {name} is not one of the version's.")
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LoadFailedError(f"{name} is not a regular file.")
            content = file.read()
    except OSError as error:
        raise LoadFailedError(f"{name} can't be read: {error.strerror}.") from error
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != files[name]:
        raise LoadFailedError(f"{name} does not have the digest it was approved under.")
    try:
        return parse_safetensors(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise LoadFailedError(f"{name} is not a safetensors file: {error}") from error


def _place_of(module: ModuleSpec, shape: BaseShape) -> tuple[int, str]:
    parts = module.module.split(".", 3)
    linear = parts[-1]
    if parts[:2] != ["model", "layers"] or linear not in LINEARS or not parts[2].isdecimal():
        raise LoadFailedError(f"module {module.module} has no place in the base.")
    if int(parts[2]) >= shape.num_layers:
        raise LoadFailedError(f"module {module.module} has no place in a base of {shape.num_layers} layers.")
    return int(parts[2]), linear


def _checked(
    module: ModuleSpec, tensors: Mapping[str, torch.Tensor], linear_shape: tuple[int, int], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A [rank, d_in] and scaled B transposed [rank, d_out] in the serving dtype."""
    d_out, d_in = linear_shape
    for key, expected in ((module.key_a, (module.rank, d_in)), (module.key_b, (d_out, module.rank))):
        found = tensors.get(key)
        if found is None or tuple(found.shape) != expected or not found.is_floating_point():
            raise LoadFailedError(f"tensor {key} is missing or is not {list(expected)} of floats.")
    # Scaling in float32 before the one cast to the serving dtype loses the least.
    half_a = tensors[module.key_a].to(dtype)
    half_b = (tensors[module.key_b].to(torch.float32) * module.scaling).to(dtype).t()
    if not (torch.isfinite(half_a).all() and torch.isfinite(half_b).all()):
        raise LoadFailedError(f"module {module.module} holds values that are not finite in {dtype}.")
    return half_a, half_b
