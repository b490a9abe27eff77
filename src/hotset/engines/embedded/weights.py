"""Reading a base folder's weights: digests checked, safetensors only, fused where the forward pass fuses.

Every tensor in the files must be known and have the shape the config says; a tensor too many or too few means the
architecture is not the one that `model` computes.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from hotset.core.base import BaseVersion
from hotset.core.errors import ConfigError
from hotset.engines.embedded.linear import Linear
from hotset.engines.embedded.model_config import ModelConfig

_INDEX = "model.safetensors.index.json"
_HASH_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer; the norms' weights are float32."""

    input_norm: torch.Tensor
    qkv: Linear
    #: [num_heads + num_kv_heads, head_dim], or None without q and k norms.
    qk_norm: torch.Tensor | None
    o: Linear
    post_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """The whole model in its serving dtype."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    lm_head: Linear


def check_base_files(folder: Path, base: BaseVersion) -> None:
    """Hash every registered file of the base folder.

    Raises:
        ConfigError: a file is missing or is not the one that was registered.
    """
    for name, digest in sorted(base.files.items()):
        hasher = hashlib.sha256()
        try:
            with (folder / name).open("rb") as file:
                while chunk := file.read(_HASH_CHUNK_BYTES):
                    hasher.update(chunk)
        except OSError as error:
            raise ConfigError(f"base file {name} can't be read: {error.strerror}.") from error
        if f"sha256:{hasher.hexdigest()}" != digest:
            raise ConfigError(f"base file {name} is not the one that was registered; add the base again.")


def load_weights(folder: Path, config: ModelConfig, dtype: torch.dtype) -> ModelWeights:
    """Read, check, convert and fuse the weights.

    Raises:
        ConfigError: no safetensors, or tensors other than the architecture's.
    """
    tensors = _read_tensors(folder, dtype)
    source = _Source(tensors)
    shape = config.shape
    embedding = source.take("model.embed_tokens.weight", (shape.vocab_size, shape.hidden_size))
    layers = tuple(_layer(source, config, index) for index in range(shape.num_layers))
    norm = source.take("model.norm.weight", (shape.hidden_size,)).float()
    head = source.find("lm_head.weight", (shape.vocab_size, shape.hidden_size))
    if head is None or shape.tie_word_embeddings:
        if not shape.tie_word_embeddings:
            raise ConfigError("the weights hold no lm_head.weight and the config does not tie it.")
        head = embedding
    source.check_empty()
    return ModelWeights(embedding, layers, norm, Linear(head))


class _Source:
    """Tensors by name, each taken once."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def find(self, name: str, shape: tuple[int, ...]) -> torch.Tensor | None:
        tensor = self._tensors.pop(name, None)
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ConfigError(f"tensor {name} has shape {list(tensor.shape)}, expected {list(shape)}.")
        return tensor

    def take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = self.find(name, shape)
        if tensor is None:
            raise ConfigError(f"the weights hold no {name}.")
        return tensor

    def fused(self, prefix: str, linears: Mapping[str, tuple[int, int]]) -> Linear:
        """Return linears that share their input as one."""
        weights = [self.take(f"{prefix}{name}.weight", shape) for name, shape in linears.items()]
        biases = [self.find(f"{prefix}{name}.bias", shape[:1]) for name, shape in linears.items()]
        present = [bias for bias in biases if bias is not None]
        if present and len(present) != len(biases):
            raise ConfigError(f"only some of {prefix}{{{','.join(linears)}}} have a bias; that is not served.")
        return Linear(torch.cat(weights), torch.cat(present) if present else None)

    def check_empty(self) -> None:
        rest = sorted(name for name in self._tensors if not name.endswith("rotary_emb.inv_freq"))
        if rest:
            raise ConfigError(f"the weights hold {len(rest)} tensors that are not served, such as {rest[0]}.")


def _layer(source: _Source, config: ModelConfig, index: int) -> LayerWeights:
    shape = config.shape
    prefix = f"model.layers.{index}."

    def fused(*linears: str) -> Linear:
        return source.fused(prefix, {linear: shape.linear_shape(linear) for linear in linears})

    qk_norm = None
    if config.has_qk_norm:
        q_norm = source.take(f"{prefix}self_attn.q_norm.weight", (shape.head_dim,))
        k_norm = source.take(f"{prefix}self_attn.k_norm.weight", (shape.head_dim,))
        qk_norm = torch.cat((q_norm.repeat(shape.num_heads, 1), k_norm.repeat(shape.num_kv_heads, 1)))
    return LayerWeights(
        input_norm=source.take(f"{prefix}input_layernorm.weight", (shape.hidden_size,)).float(),
        qkv=fused("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        qk_norm=qk_norm,
        o=fused("self_attn.o_proj"),
        post_norm=source.take(f"{prefix}post_attention_layernorm.weight", (shape.hidden_size,)).float(),
        gate_up=fused("mlp.gate_proj", "mlp.up_proj"),
        down=fused("mlp.down_proj"),
    )


def _read_tensors(folder: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for name in _weight_files(folder):
        try:
            with safe_open(folder / name, framework="pt") as file:  # pyright: ignore[reportUnknownVariableType]
                for key in file.keys():  # noqa: SIM118 -- not a dict
                    tensors[key] = file.get_tensor(key).to(dtype)
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"base file {name} can't be read: {error}") from error
    return tensors


def _weight_files(folder: Path) -> list[str]:
    index = folder / _INDEX
    if index.is_file():
        weight_map: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(weight_map.values()))
        if any(Path(name).name != name for name in names):
            raise ConfigError(f"{_INDEX} names a file outside the base folder.")
        return names
    if (folder / "model.safetensors").is_file():
        return ["model.safetensors"]
    raise ConfigError("the base folder holds no model.safetensors and no index of one.")
