"""Adapters of random weights for benchmarks: real files in PEFT's layout, made in moments, the same for every side.

Ranks and targets are mixed, as tenants' are. The weights are small enough that no side overflows; what the
adapters say is of no account, only what they cost.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotset.core.base import LINEARS, BaseShape

_ATTENTION = LINEARS[:4]
_MLP = LINEARS[4:]
#: Rank and targets of the first adapter, the second, and so on, around again.
MIX: tuple[tuple[int, tuple[str, ...]], ...] = (
    (16, LINEARS),
    (8, LINEARS),
    (4, LINEARS),
    (16, _ATTENTION),
    (8, _MLP),
    (8, ("self_attn.q_proj", "self_attn.v_proj")),
    (4, _ATTENTION),
    (16, _MLP),
)
RANK_MAX = max(rank for rank, _ in MIX)
_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class BenchAdapter:
    """One adapter of a bench: its name and its folder."""

    name: str
    folder: Path


def write_mix(folder: Path, shape: BaseShape, base_name: str, count: int) -> list[BenchAdapter]:
    """Write `count` adapters of the `MIX` under `folder`; the same ones for the same shape, whenever."""
    made: list[BenchAdapter] = []
    for number in range(count):
        rank, targets = MIX[number % len(MIX)]
        adapter = BenchAdapter(f"bench-{number:02d}", folder / f"bench-{number:02d}")
        write_adapter(adapter.folder, shape, base_name, rank=rank, targets=targets, seed=number)
        made.append(adapter)
    return made


def write_adapter(
    folder: Path, shape: BaseShape, base_name: str, *, rank: int, targets: tuple[str, ...], seed: int
) -> None:
    """Write one adapter: ``adapter_config.json`` and float32 ``adapter_model.safetensors``."""
    rng = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray] = {}
    for layer in range(shape.num_layers):
        for target in targets:
            d_out, d_in = shape.linear_shape(target)
            prefix = f"base_model.model.model.layers.{layer}.{target}"
            tensors[f"{prefix}.lora_A.weight"] = _SCALE * rng.standard_normal((rank, d_in), dtype=np.float32)
            tensors[f"{prefix}.lora_B.weight"] = _SCALE * rng.standard_normal((d_out, rank), dtype=np.float32)
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(encode_safetensors(tensors))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name,
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(target.rpartition(".")[2] for target in targets),
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encode_safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    """Return float32 tensors as one safetensors file.

    Source: the safetensors format: an 8-byte little-endian header length, a JSON header padded with spaces to
    a multiple of 8, then the tensors' bytes, row-major, at the offsets that the header gives.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name in sorted(tensors):
        size = tensors[name].nbytes
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    bodies = [np.ascontiguousarray(tensors[name], dtype="<f4").tobytes() for name in sorted(tensors)]
    return len(text).to_bytes(8, "little") + text + b"".join(bodies)
