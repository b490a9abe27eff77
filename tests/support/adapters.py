"""Makes small adapters in PEFT's folder format, good ones and every kind of bad one, from a seed.

Only numpy is needed. `make_adapter` writes a folder that `verify` accepts on the base it is given;
its arguments bend one thing at a time.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotset.core.base import LINEARS, BaseShape, BaseVersion, TokenizerFacts
from hotset.core.ids import BaseName, Digest
from tests.support.safetensors_writer import write_safetensors

#: Under which name the adapters made here declare their base.
BASE_NAME = "acme/tiny-llama"
PREFIX = "base_model.model."

Tensors = dict[str, np.ndarray]


def tiny_base_shape(*, family: str = "llama", num_layers: int = 2) -> BaseShape:
    """Return the shape that `tests.support.bases.make_tiny_base` writes by default."""
    return BaseShape(
        family=family,
        hidden_size=64,
        intermediate_size=160,
        num_layers=num_layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        vocab_size=320,
        context_len=1024,
        tie_word_embeddings=False,
    )


def tiny_base_version(shape: BaseShape | None = None, *, tokenizer: TokenizerFacts | None = None) -> BaseVersion:
    """Return a base version of that shape without any files, under the synonym `BASE_NAME`."""
    return BaseVersion(
        name=BaseName("tiny"),
        digest=Digest("sha256:" + "b" * 64),
        synonyms=(BASE_NAME,),
        shape=shape or tiny_base_shape(),
        tokenizer=tokenizer or TokenizerFacts(),
        files={},
    )


def adapter_config(
    *, rank: int = 8, alpha: float = 16, targets: Iterable[str] | str = ("q_proj", "v_proj"), **settings: Any
) -> dict[str, Any]:
    """Return an adapter_config.json as PEFT writes it; `settings` replace or add single entries."""
    config: dict[str, Any] = {
        "alpha_pattern": {},
        "auto_mapping": None,
        "base_model_name_or_path": BASE_NAME,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "layers_pattern": None,
        "layers_to_transform": None,
        "loftq_config": {},
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "megatron_config": None,
        "megatron_core": "megatron.core",
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": {},
        "revision": None,
        "target_modules": targets if isinstance(targets, str) else list(targets),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
    return {**config, **settings}


def adapter_tensors(
    shape: BaseShape,
    *,
    rank: int = 8,
    targets: Iterable[str] = ("q_proj", "v_proj"),
    layers: Iterable[int] | None = None,
    ranks: Mapping[str, int] | None = None,
    std: float = 0.2,
    seed: int = 0,
) -> Tensors:
    """Return both halves for every target in every layer, canonically named.

    Args:
        shape: Of the base.
        rank: Of every module that `ranks` does not name.
        targets: Last segments of linears, such as ``q_proj``.
        layers: Layer indexes; all by default.
        ranks: Rank by module path, such as ``model.layers.0.self_attn.q_proj``.
        std: Of the normal values of both halves.
        seed: Fixes every value.
    """
    random = np.random.default_rng(seed)
    wanted = set(targets)
    tensors: Tensors = {}
    for layer in range(shape.num_layers) if layers is None else layers:
        for linear in LINEARS:
            if linear.rpartition(".")[2] not in wanted:
                continue
            module = f"model.layers.{layer}.{linear}"
            module_rank = (ranks or {}).get(module, rank)
            d_out, d_in = shape.linear_shape(linear)
            tensors[f"{PREFIX}{module}.lora_A.weight"] = random.normal(0, std, (module_rank, d_in))
            tensors[f"{PREFIX}{module}.lora_B.weight"] = random.normal(0, std, (d_out, module_rank))
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def make_adapter(
    folder: Path,
    shape: BaseShape,
    *,
    rank: int = 8,
    alpha: float = 16,
    targets: Iterable[str] = ("q_proj", "v_proj"),
    layers: Iterable[int] | None = None,
    std: float = 0.2,
    seed: int = 0,
    dtype: str = "F32",
    config: Mapping[str, Any] | None = None,
    edit: Callable[[Tensors], None] | None = None,
) -> Path:
    """Write a PEFT adapter folder that fits `shape` and return it.

    Args:
        folder: Made if need be.
        shape: Of the base.
        rank: ``r``.
        alpha: ``lora_alpha``.
        targets: Last segments of linears; also what ``target_modules`` says.
        layers: Layers that have tensors; all by default.
        std: Of the values; larger is a stronger effect.
        seed: Fixes every value.
        dtype: ``F32``, ``F16`` or ``BF16``.
        config: Settings that replace or add to the configuration.
        edit: Changes the tensors before they are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    targets = tuple(targets)
    settings = adapter_config(rank=rank, alpha=alpha, targets=targets)
    settings.update(config or {})
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2))
    tensors = adapter_tensors(shape, rank=rank, targets=targets, layers=layers, std=std, seed=seed)
    if edit is not None:
        edit(tensors)
    write_safetensors(folder / "adapter_model.safetensors", tensors, dtype=dtype)
    return folder
