"""What a base's configuration and the engine's settings leave room for: blocks of cache, and the longest sequence."""

import json
from pathlib import Path

import torch

from hotset.core.errors import ConfigError
from hotset.engines.embedded.kv_cache import KvCache
from hotset.engines.embedded.model_config import ModelConfig, read_model_config
from hotset.engines.embedded.settings import EmbeddedSettings


def read_config(folder: Path, settings: EmbeddedSettings) -> ModelConfig:
    """Return what the base's config.json says of its model.

    Raises:
        ConfigError: it can't be read, or is of a model that can't be served exactly.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the base's config.json can't be read: {error}") from error
    return read_model_config(config, settings.base.shape)


def num_blocks(settings: EmbeddedSettings, dtype: torch.dtype) -> int:
    """Return the blocks of the cache, with the one that is never given out.

    Raises:
        ConfigError: fewer than two fit the bytes that it may take.
    """
    if settings.kv_blocks:
        return settings.kv_blocks + 1
    count = settings.kv_bytes_max // KvCache.block_bytes(settings.base.shape, settings.block_size, dtype)
    if count < 2:
        raise ConfigError("kv_bytes_max holds less than two blocks of KV cache.")
    return count


def model_len_max(settings: EmbeddedSettings, config: ModelConfig, num_blocks: int) -> int:
    """Return the longest sequence: one that the model attends to exactly and that the cache holds alone.

    Raises:
        ConfigError: a longer one is asked for.
    """
    room = (num_blocks - 1) * settings.block_size
    limit = min(settings.base.shape.context_len, config.window or room, room)
    if settings.model_len_max > limit:
        raise ConfigError(f"model_len_max is {settings.model_len_max}, this model and cache hold {limit} tokens.")
    return settings.model_len_max or limit
