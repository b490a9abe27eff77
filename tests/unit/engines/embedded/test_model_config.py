"""Only architectures that are computed exactly are served; the others are named."""

from typing import Any

import pytest
import torch

from hotset.core.errors import ConfigError
from hotset.engines.embedded.model_config import RopeConfig, read_model_config
from hotset.engines.embedded.rope import inverse_frequencies, rope_tables
from tests.support.adapters import tiny_base_shape
from tests.support.bases import base_config

_SHAPE = tiny_base_shape()


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_families(family: str) -> None:
    shape = tiny_base_shape(family=family)
    config = read_model_config(base_config(shape), shape)
    assert config.has_qk_norm == (family == "qwen3")
    assert config.rope == RopeConfig(10000.0)
    assert config.window is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "gemma"}, "'gemma' is not served"),
        ({"model_type": "mistral"}, "registered base is 'llama'"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "part of each head"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "'yarn'"),
        ({"num_key_value_heads": 1}, "num_key_value_heads 1, the registered base has 2"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_model_config({**base_config(_SHAPE), **settings}, _SHAPE)


@pytest.mark.parametrize(
    ("settings", "rope"),
    [
        ({"rope_theta": 5e5}, RopeConfig(5e5)),
        ({"rope_parameters": {"rope_theta": 1e5, "rope_type": "default"}}, RopeConfig(1e5)),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, RopeConfig(1e4, "linear", 2.0)),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            RopeConfig(1e4, "llama3", 8.0, 1.0, 4.0, 8192),
        ),
    ],
)
def test_rope_settings_of_old_and_new_configs(settings: dict[str, Any], rope: RopeConfig) -> None:
    assert read_model_config({**base_config(_SHAPE), **settings}, _SHAPE).rope == rope


@pytest.mark.parametrize(
    ("family", "settings", "window"),
    [
        ("mistral", {"sliding_window": 4096}, 4096),
        ("mistral", {"sliding_window": None}, None),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False}, None),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": True}, 64),
    ],
)
def test_sliding_windows(family: str, settings: dict[str, Any], window: int | None) -> None:
    shape = tiny_base_shape(family=family)
    assert read_model_config({**base_config(shape), **settings}, shape).window == window


def test_llama3_keeps_short_wavelengths_and_stretches_long_ones() -> None:
    plain = inverse_frequencies(RopeConfig(5e5), 64)
    scaled = inverse_frequencies(RopeConfig(5e5, "llama3", 8.0, 1.0, 4.0, 8192), 64)
    assert torch.equal(scaled[:8], plain[:8])
    torch.testing.assert_close(scaled[-4:], plain[-4:] / 8)
    assert (scaled[1:] < scaled[:-1]).all()


def test_tables_rotate_pairs() -> None:
    cosines, sines = rope_tables(RopeConfig(100.0), 8, 16, torch.float32)
    x = torch.randn((16, 1, 2, 4), generator=torch.Generator().manual_seed(0))
    rotated = x * cosines + x.flip(-2) * sines
    torch.testing.assert_close(rotated.norm(dim=-2), x.norm(dim=-2))
    assert torch.equal(rotated[0], x[0]), "position 0 is not rotated"
    angle = torch.atan2(rotated[3, 0, 1], rotated[3, 0, 0]) - torch.atan2(x[3, 0, 1], x[3, 0, 0])
    expected = 3 * inverse_frequencies(RopeConfig(100.0), 8)
    torch.testing.assert_close(torch.remainder(angle, 2 * torch.pi), torch.remainder(expected, 2 * torch.pi))
