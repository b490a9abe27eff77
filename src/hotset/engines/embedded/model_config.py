"""Which architecture a base folder holds, from its config.json, and which ones this engine computes exactly.

Anything that would change a number and that `model` does not compute is refused here, by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.core.base import BaseShape
from hotset.core.errors import ConfigError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding: ``default``, ``linear`` or ``llama3``."""

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context_len: int = 0


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What the forward pass needs beyond the base's shape."""

    shape: BaseShape
    rms_norm_eps: float
    rope: RopeConfig
    #: q and k are RMS-normalised for each head (Qwen3).
    has_qk_norm: bool
    #: Tokens beyond which the model would attend through a sliding window; None without one.
    window: int | None


def read_model_config(config: Mapping[str, Any], shape: BaseShape) -> ModelConfig:
    """Return what config.json says, or refuse it.

    Args:
        config: The decoded config.json.
        shape: The shape that the base version was registered with.

    Raises:
        ConfigError: an architecture, a setting or a shape that this engine does not compute exactly.
    """
    family = str(config.get("model_type", ""))
    if family not in FAMILIES:
        raise ConfigError(f"model_type {family!r} is not served; served are {', '.join(FAMILIES)}.")
    _refuse_settings(config)
    _check_shape(config, shape, family)
    return ModelConfig(
        shape=shape,
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=_read_rope(config, shape),
        has_qk_norm=family == "qwen3",
        window=_read_window(config, family),
    )


def _refuse_settings(config: Mapping[str, Any]) -> None:
    served = {"hidden_act": "silu", "mlp_bias": False, "quantization_config": None, "partial_rotary_factor": 1.0}
    for name, value in served.items():
        found = config.get(name, value)
        if found is not None and found != value:
            raise ConfigError(f"config.json sets {name} to {found!r}; only {value!r} is served.")


def _check_shape(config: Mapping[str, Any], shape: BaseShape, family: str) -> None:
    names = {
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
    }
    if family != shape.family:
        raise ConfigError(f"the base folder holds {family!r}, the registered base is {shape.family!r}.")
    for name, registered in names.items():
        found = config.get(name)
        if found is not None and found != registered:
            raise ConfigError(f"config.json says {name} {found}, the registered base has {registered}.")


def _read_rope(config: Mapping[str, Any], shape: BaseShape) -> RopeConfig:
    settings: dict[str, Any] = dict(config.get("rope_scaling") or {})
    settings.update(config.get("rope_parameters") or {})
    kind = str(settings.get("rope_type", settings.get("type", "default")))
    theta = float(settings.get("rope_theta", config.get("rope_theta", 10000.0)))
    if settings.get("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise ConfigError("config.json rotates only a part of each head; that is not served.")
    if kind == "default":
        return RopeConfig(theta)
    if kind == "linear":
        return RopeConfig(theta, kind, factor=float(settings["factor"]))
    if kind == "llama3":
        return RopeConfig(
            theta,
            kind,
            factor=float(settings["factor"]),
            low_freq_factor=float(settings["low_freq_factor"]),
            high_freq_factor=float(settings["high_freq_factor"]),
            original_context_len=int(settings.get("original_max_position_embeddings") or shape.context_len),
        )
    raise ConfigError(f"RoPE scaling {kind!r} is not served; served are default, linear and llama3.")


def _read_window(config: Mapping[str, Any], family: str) -> int | None:
    window = config.get("sliding_window")
    if window is None or (family in ("qwen2", "qwen3") and not config.get("use_sliding_window", False)):
        return None
    return int(window)
