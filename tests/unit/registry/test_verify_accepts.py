"""Good adapters are admitted whatever way they spell the same thing, and the manifest says what they do."""

import dataclasses
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from hotset.core.errors import VersionRefusedError
from hotset.core.versions import Manifest
from hotset.registry.artifact import Artifact
from hotset.registry.digests import version_digest
from hotset.registry.verify import (
    IGNORE_SHIPPED_TOKENIZER,
    OTHER_BASE,
    VerifiedVersion,
    VerifyPolicy,
    verify,
)
from hotset.registry.weights import check_values
from tests.support.adapters import PREFIX, adapter_tensors, tiny_base_shape, tiny_base_version
from tests.support.bad_adapters import RANK_MAX, WEIGHTS, adapter_files, rename, shards, without

BASE = tiny_base_version()
SHAPE = BASE.shape
ALL_SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def check(
    files: dict[str, bytes], *overrides: str, dtype: str = "float32", ignored: tuple[str, ...] = ()
) -> VerifiedVersion:
    policy = VerifyPolicy(rank_max=RANK_MAX, dtype=dtype, overrides=frozenset(overrides))
    return verify(Artifact.of(files, ignored), BASE, policy)


def codes(verified: VerifiedVersion) -> list[str]:
    return [code for code, _ in verified.warnings]


def modules(verified: VerifiedVersion) -> set[str]:
    return {spec.module for spec in verified.modules}


def test_an_ordinary_adapter_is_admitted_without_a_warning() -> None:
    files = adapter_files()

    verified = check(files)

    assert verified.warnings == ()
    assert verified.base == BASE.digest
    assert [entry.name for entry in verified.manifest.files] == sorted(files)
    assert verified.digest == version_digest(BASE.digest, verified.manifest.files)
    assert modules(verified) == {f"model.layers.{n}.self_attn.{p}" for n in (0, 1) for p in ("q_proj", "v_proj")}
    spec = verified.modules[0]
    assert (spec.rank, spec.alpha, spec.scaling, spec.file) == (8, 16.0, 2.0, WEIGHTS)
    assert spec.key_a == f"{PREFIX}{spec.module}.lora_A.weight"
    assert list(verified.modules) == sorted(verified.modules, key=lambda spec: spec.module)


def test_the_manifest_survives_encoding() -> None:
    manifest = check(adapter_files()).manifest

    assert msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest) == manifest


def test_only_verify_makes_a_verified_version() -> None:
    verified = check(adapter_files())

    with pytest.raises(AssertionError, match=r"only registry\.verify\.verify"):
        VerifiedVersion(verified.base, verified.digest, verified.manifest, object())
    with pytest.raises(ValueError, match="seal"):
        dataclasses.replace(verified, manifest=msgspec.structs.replace(verified.manifest, modules=()))


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({}, 2.0),
        ({"use_rslora": True}, 16 / math.sqrt(8)),
        ({"lora_alpha": 16.5}, 16.5 / 8),
        ({"lora_alpha": -4}, -0.5),
        ({"alpha_pattern": {"q_proj": 32, "v_proj": 32}}, 4.0),
        ({"alpha_pattern": {r".*\.[qv]_proj": 32, "q_proj": 1, "v_proj": 1}}, 4.0),
    ],
)
def test_the_scaling_is_the_one_of_training(settings: dict[str, Any], scaling: float) -> None:
    verified = check(adapter_files(config=settings))

    assert {spec.scaling for spec in verified.modules} == {scaling}


def test_rank_patterns_lift_single_modules() -> None:
    ranks = {"model.layers.1.self_attn.q_proj": 12}

    verified = check(adapter_files(ranks=ranks, config={"rank_pattern": {"layers.1.self_attn.q_proj": 12}}))

    assert {spec.module: spec.rank for spec in verified.modules if spec.rank != 8} == ranks
    assert verified.manifest.rank_max == 12


@pytest.mark.parametrize("rank", [1, 5, 16])
def test_awkward_ranks_are_as_good_as_others(rank: int) -> None:
    assert {spec.rank for spec in check(adapter_files(rank=rank)).modules} == {rank}


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ({"target_modules": "all-linear"}, ALL_SEVEN),
        ({"target_modules": "All-Linear", "exclude_modules": ["down_proj"]}, ALL_SEVEN[:-1]),
        ({"target_modules": "all-linear", "exclude_modules": r".*\.mlp\..*"}, ALL_SEVEN[:4]),
        ({"target_modules": r".*\.(q|v)_proj"}, ("q_proj", "v_proj")),
        ({"target_modules": ["self_attn.q_proj", "mlp.down_proj"]}, ("q_proj", "down_proj")),
        ({"target_modules": ["q_proj", "query_key_value"]}, ("q_proj",)),
        ({"target_modules": ["q_proj"], "layers_to_transform": []}, ("q_proj",)),
        ({"target_modules": ["q_proj", "gate_proj"]}, ("q_proj", "gate_proj")),
    ],
)
def test_targets_are_read_as_peft_reads_them(settings: dict[str, Any], targets: tuple[str, ...]) -> None:
    verified = check(adapter_files(targets=targets, config=settings))

    assert {module.rpartition(".")[2] for module in modules(verified)} == set(targets)
    assert len(verified.modules) == len(targets) * SHAPE.num_layers


@pytest.mark.parametrize(
    "settings",
    [
        {"layers_to_transform": [1]},
        {"layers_to_transform": 1},
        {"layers_to_transform": [1, 7], "layers_pattern": "layers"},
        {"layers_to_transform": [1], "layers_pattern": []},
        {"layers_to_transform": [1], "layers_pattern": ["h", "layers"]},
        {"target_modules": r".*\.layers\.1\..*\.(q|v)_proj"},
        {"target_modules": [f"model.layers.1.self_attn.{name}" for name in ("q_proj", "v_proj")]},
    ],
)
def test_one_layer_alone_can_be_adapted(settings: dict[str, Any]) -> None:
    verified = check(adapter_files(layers=[1], config=settings))

    assert modules(verified) == {"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"}


def test_a_whole_path_is_taken_whatever_layers_to_transform_says() -> None:
    settings = {
        "target_modules": ["model.layers.0.self_attn.q_proj", "v_proj"],
        "layers_to_transform": [1],
    }
    wanted = {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"}

    def keep(tensors: dict[str, np.ndarray]) -> None:
        for name in list(tensors):
            if not any(module in name for module in wanted):
                del tensors[name]

    assert modules(check(adapter_files(config=settings, edit=keep))) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        {"modules_to_save": []},
        {"lora_dropout": 0.1},
        {"init_lora_weights": "gaussian"},
        {"init_lora_weights": False},
        {"eva_config": {"rho": 2.0}},
        {"peft_version": "0.99.0", "use_qalora": False, "qalora_group_size": 16, "lora_bias": False},
        {"auto_mapping": {"base_model_class": "LlamaForCausalLM", "parent_library": "transformers"}},
        {"unheard_of": None},
        {"task_type": None},
        {"revision": "main"},
        {"alpha_pattern": None, "rank_pattern": None},
        {"exclude_modules": ""},
        {"merge_weights": False, "enable_lora": None},
    ],
)
def test_settings_that_change_nothing_are_no_reason_to_refuse(settings: dict[str, Any]) -> None:
    assert check(adapter_files(config=settings)).warnings == ()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"alpha_pattern": {"^q_proj": 100}}, "pattern_unmatched"),
        ({"rank_pattern": {"base_model.model.model.layers.0.self_attn.v_proj": 4}}, "pattern_unmatched"),
        ({"fan_in_fan_out": True}, "setting_ignored"),
        ({"revision": "a1b2c3"}, "revision_unchecked"),
        ({"base_model_name_or_path": "/home/trainer/llama"}, "base_is_a_path"),
        ({"base_model_name_or_path": "C:\\models\\llama"}, "base_is_a_path"),
        ({"base_model_name_or_path": "./out/llama"}, "base_is_a_path"),
        ({"lora_alpha": 0}, "no_effect"),
    ],
)
def test_what_the_publisher_should_know_is_a_warning(settings: dict[str, Any], code: str) -> None:
    verified = check(adapter_files(config=settings))

    assert codes(verified) == [code]
    assert {spec.rank for spec in verified.modules} == {8}


def test_an_untrained_adapter_is_admitted_with_a_warning() -> None:
    def zero(tensors: dict[str, np.ndarray]) -> None:
        for name, values in tensors.items():
            if "lora_B" in name:
                values[:] = 0

    assert codes(check(adapter_files(edit=zero))) == ["no_effect"]


@pytest.mark.parametrize(
    "change",
    [
        lambda name: name.replace(".weight", ".default.weight"),
        lambda name: name.removeprefix(PREFIX),
    ],
    ids=["adapter_name", "no_prefix"],
)
def test_names_that_say_the_same_are_placed_exactly(change: Any) -> None:
    verified = check(adapter_files(edit=lambda tensors: rename(tensors, change)))

    assert codes(verified) == ["names_not_canonical"]
    for spec in verified.modules:
        assert spec.key_a == change(f"{PREFIX}{spec.module}.lora_A.weight")
        assert spec.key_b == change(f"{PREFIX}{spec.module}.lora_B.weight")


def test_shards_that_keep_halves_together_are_placed_exactly() -> None:
    parts = shards(adapter_tensors(SHAPE), lambda name: ".layers.1." in name)

    verified = check(without(adapter_files(files=parts), WEIGHTS))

    files = {spec.module: spec.file for spec in verified.modules}
    assert files["model.layers.0.self_attn.q_proj"] == "adapter_model-00001-of-00002.safetensors"
    assert files["model.layers.1.self_attn.q_proj"] == "adapter_model-00002-of-00002.safetensors"


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_weights_are_admitted(dtype: str) -> None:
    assert check(adapter_files(dtype=dtype)).warnings == ()


@pytest.mark.parametrize(("dtype", "is_admitted"), [("float32", True), ("bfloat16", True), ("float16", False)])
def test_values_must_survive_the_cast_to_the_serving_dtype(dtype: str, is_admitted: bool) -> None:
    def enlarge(tensors: dict[str, np.ndarray]) -> None:
        tensors[f"{PREFIX}model.layers.0.self_attn.q_proj.lora_B.weight"][0, 0] = 1e6

    files = adapter_files(edit=enlarge)
    if is_admitted:
        assert check(files, dtype=dtype).warnings == ()
    else:
        with pytest.raises(VersionRefusedError) as caught:
            check(files, dtype=dtype)
        assert caught.value.reason == "values_overflow"


def test_a_scaled_half_must_survive_the_cast_too() -> None:
    def enlarge(tensors: dict[str, np.ndarray]) -> None:
        tensors[f"{PREFIX}model.layers.0.self_attn.q_proj.lora_B.weight"][0, 0] = 40_000

    assert check(adapter_files(edit=enlarge, config={"lora_alpha": 8}), dtype="float16").warnings == ()
    with pytest.raises(VersionRefusedError, match="with its scaling"):
        check(adapter_files(edit=enlarge, config={"lora_alpha": 16}), dtype="float16")


@pytest.mark.parametrize(("dtype", "largest"), [("float16", 65504.0), ("bfloat16", 3.3895313892515355e38)])
def test_the_largest_number_of_the_serving_dtype_is_still_finite(dtype: str, largest: float) -> None:
    check_values("t", largest, 1.0, dtype)
    check_values("t", largest / 2, -2.0, dtype)
    for peak, scaling in ((np.nextafter(largest, math.inf), 1.0), (largest, 1.0001), (largest, -2.0)):
        with pytest.raises(VersionRefusedError, match="is infinite in"):
            check_values("t", float(peak), scaling, dtype)


def test_another_base_is_admitted_by_override_and_recorded() -> None:
    files = adapter_files(config={"base_model_name_or_path": "othercorp/other-llama"})

    verified = check(files, OTHER_BASE, IGNORE_SHIPPED_TOKENIZER)

    assert verified.manifest.overrides == (OTHER_BASE,)
    assert codes(verified) == [OTHER_BASE]


def test_a_shipped_tokenizer_is_ignored_by_override_and_recorded() -> None:
    files = adapter_files(files={"chat_template.jinja": b"{{ messages }}"})

    verified = check(files, IGNORE_SHIPPED_TOKENIZER)

    assert verified.manifest.overrides == (IGNORE_SHIPPED_TOKENIZER,)
    assert "chat_template.jinja" in {entry.name for entry in verified.manifest.files}


def test_an_override_never_admits_new_token_ids() -> None:
    files = adapter_files(files={"added_tokens.json": b'{"<new>": 320}'})

    with pytest.raises(VersionRefusedError) as caught:
        check(files, IGNORE_SHIPPED_TOKENIZER, OTHER_BASE)
    assert caught.value.reason == "extra_vocabulary"


def test_added_tokens_copied_from_the_base_are_no_extra_vocabulary() -> None:
    files = adapter_files(files={"added_tokens.json": json.dumps({"<a>": 318, "<b>": 319}).encode()})

    assert check(files).warnings == ()


def test_files_that_are_never_opened_are_named() -> None:
    ignored = ("README.md", "adapter_model.bin", "new_embeddings.safetensors", "checkpoint-100/")

    verified = check(adapter_files(), ignored=ignored)

    assert codes(verified) == ["file_ignored", "file_ignored"]
    assert "adapter_model.bin" not in {entry.name for entry in verified.manifest.files}


def test_the_digest_follows_every_byte_and_the_base() -> None:
    one = check(adapter_files(seed=1))
    other = check(adapter_files(seed=2))

    assert one.digest != other.digest
    assert version_digest(BASE.digest, one.manifest.files) != version_digest(one.digest, one.manifest.files)


def test_a_layers_pattern_that_names_nothing_targets_nothing() -> None:
    with pytest.raises(VersionRefusedError) as caught:
        check(adapter_files(config={"layers_to_transform": [0], "layers_pattern": "h"}))
    assert caught.value.reason == "targets_match_nothing"


def test_a_deep_base_is_handled() -> None:
    shape = tiny_base_shape(num_layers=40)
    base = tiny_base_version(shape)
    files = adapter_files(shape, targets=ALL_SEVEN, rank=2)

    verified = verify(Artifact.of(files), base, VerifyPolicy(rank_max=RANK_MAX))

    assert len(verified.modules) == 280
