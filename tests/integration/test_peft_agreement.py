"""The registry reads a configuration as PEFT does: same modules, same rank, same scaling, same update.

PEFT is the reference here and nowhere else; what it loads wrongly is in `tests/support/bad_adapters.py`.
"""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotset.registry.peft_rules import RULES
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.folder import open_artifact
from tests.acceptance.expected_effect import verified_deltas
from tests.support.adapters import BASE_NAME, tiny_base_shape, tiny_base_version

peft = pytest.importorskip("peft")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHAPE = tiny_base_shape()
POLICY = VerifyPolicy(rank_max=64)

CONFIGS: dict[str, dict[str, Any]] = {
    "list": {"target_modules": ["q_proj", "v_proj"]},
    "all linear": {"target_modules": "all-linear"},
    "all but one": {"target_modules": "all-linear", "exclude_modules": ["down_proj"]},
    "excluded by regex": {"target_modules": ["q_proj", "o_proj"], "exclude_modules": r".*\.0\..*"},
    "regex": {"target_modules": r".*\.layers\.0\..*\.(q|v)_proj"},
    "parents": {"target_modules": ["self_attn.q_proj", "mlp.down_proj"]},
    "one layer": {"target_modules": ["q_proj"], "layers_to_transform": [1]},
    "one layer by name": {"target_modules": ["q_proj"], "layers_to_transform": 0, "layers_pattern": "layers"},
    "no layers": {"target_modules": ["k_proj"], "layers_to_transform": []},
    "whole path": {"target_modules": ["model.layers.0.mlp.up_proj", "v_proj"], "layers_to_transform": [1]},
    "rslora": {"target_modules": ["q_proj"], "use_rslora": True, "r": 5},
    "ranks": {
        "target_modules": ["q_proj", "up_proj"],
        "rank_pattern": {"layers.0.self_attn.q_proj": 3, "q_proj": 6, ".*1.*up_proj": 2},
    },
    "alphas": {
        "target_modules": ["q_proj", "up_proj"],
        "alpha_pattern": {"^q_proj": 99, r"layers\.1\..*": 4, "model.layers.1.self_attn.q_proj": 7, "up_proj": 2.5},
    },
    "both": {
        "target_modules": ["q_proj", "k_proj"],
        "use_rslora": True,
        "rank_pattern": {"k_proj": 4},
        "alpha_pattern": {"k_proj": 3},
    },
    "gaussian": {"target_modules": ["o_proj"], "init_lora_weights": "gaussian", "lora_dropout": 0.1},
    "orthogonal": {"target_modules": ["o_proj"], "init_lora_weights": "orthogonal"},
}


@pytest.fixture(scope="module")
def base_config() -> Any:
    return transformers.LlamaConfig(
        hidden_size=SHAPE.hidden_size,
        intermediate_size=SHAPE.intermediate_size,
        num_hidden_layers=SHAPE.num_layers,
        num_attention_heads=SHAPE.num_heads,
        num_key_value_heads=SHAPE.num_kv_heads,
        vocab_size=SHAPE.vocab_size,
    )


def train(base_config: Any, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make an adapter with PEFT, give it random values, save it; return its layers by path."""
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(base_config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = peft.LoraConfig(task_type="CAUSAL_LM", lora_alpha=16, **settings)
        config.base_model_name_or_path = BASE_NAME
        adapted = peft.get_peft_model(model, config)
        config.base_model_name_or_path = BASE_NAME
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.normal_(0, 0.1)
        adapted.save_pretrained(folder)
    prefix = "base_model.model."
    return {
        name.removeprefix(prefix): module
        for name, module in adapted.named_modules()
        if isinstance(module, peft.tuners.lora.Linear)
    }


@pytest.mark.parametrize("settings", list(CONFIGS.values()), ids=list(CONFIGS))
def test_what_peft_trains_and_saves_is_read_alike(tmp_path: Path, base_config: Any, settings: dict[str, Any]) -> None:
    layers = train(base_config, settings, tmp_path)

    with open_artifact(tmp_path) as artifact:
        verified = verify(artifact, tiny_base_version(), POLICY)
        deltas = verified_deltas(verified, artifact)

    assert {spec.module for spec in verified.modules} == layers.keys()
    for spec in verified.modules:
        layer = layers[spec.module]
        assert (spec.rank, spec.alpha) == (layer.r["default"], layer.lora_alpha["default"])
        assert spec.scaling == pytest.approx(layer.scaling["default"], rel=1e-12)
        expected = layer.get_delta_weight("default").detach().numpy()
        np.testing.assert_allclose(deltas[spec.module], expected, rtol=1e-4, atol=1e-6)


def test_every_setting_that_peft_writes_has_a_rule() -> None:
    written = {field.name for field in dataclasses.fields(peft.LoraConfig)}

    assert written - RULES.keys() == set()


def test_peft_loads_nothing_with_another_default(base_config: Any, tmp_path: Path) -> None:
    """What a configuration leaves out means here what it means to PEFT."""
    train(base_config, {"target_modules": ["q_proj"]}, tmp_path)
    defaults = peft.LoraConfig()

    assert defaults.use_rslora is False
    assert defaults.bias == "none"
    assert (defaults.rank_pattern, defaults.alpha_pattern) == ({}, {})
    assert defaults.exclude_modules is defaults.layers_to_transform is defaults.layers_pattern is None
