"""Every kind of adapter that must be refused, made from a good one by one bend each, in memory or in a folder.

`BAD_ADAPTERS` pairs each with the reason that `verify` must give on `tiny_base_version()` with rank limit 16.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotset.core.base import BaseShape
from hotset.registry.refusals import Refusal
from tests.support.adapters import PREFIX, Tensors, adapter_config, adapter_tensors, tiny_base_shape
from tests.support.safetensors_writer import pack, safetensors_bytes

Files = dict[str, bytes]

RANK_MAX = 16
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
FIRST = f"{PREFIX}model.layers.0.self_attn.q_proj"


@dataclass(frozen=True)
class BadAdapter:
    """One bent adapter and the reason to refuse it."""

    name: str
    refusal: Refusal
    files: Files
    #: Names in the folder that are never opened.
    ignored: tuple[str, ...] = ()


def adapter_files(
    shape: BaseShape | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    edit: Callable[[Tensors], None] | None = None,
    dtype: str = "F32",
    files: Mapping[str, bytes] | None = None,
    **tensors: Any,
) -> Files:
    """Return the files of an adapter that fits `shape`, with settings, tensors and files replaced.

    Args:
        shape: Of the base; `tiny_base_shape()` by default.
        config: Settings that replace or add to the configuration.
        edit: Changes the tensors before they are written.
        dtype: Of the tensors.
        files: Replace or add whole files; empty bytes stay a file.
        tensors: Arguments of `adapter_tensors`; ``rank`` and ``targets`` also go into the configuration.
    """
    values = adapter_tensors(shape or tiny_base_shape(), **tensors)
    if edit is not None:
        edit(values)
    known = {key: tensors[key] for key in ("rank", "targets") if key in tensors}
    settings = {**adapter_config(**known), **(config or {})}
    return {
        CONFIG: json.dumps(settings).encode(),
        WEIGHTS: safetensors_bytes(values, dtype=dtype),
        **(files or {}),
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a new folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def rename(tensors: Tensors, change: Callable[[str], str]) -> None:
    """Give every tensor another name."""
    for name in list(tensors):
        tensors[change(name)] = tensors.pop(name)


def without(files: Files, name: str) -> Files:
    """Return the files less one."""
    return {other: content for other, content in files.items() if other != name}


def shards(tensors: Tensors, split: Callable[[str], bool]) -> Files:
    """Return two shards and their index; `split` says which names go into the second."""
    parts = [{n: v for n, v in tensors.items() if split(n) is second} for second in (False, True)]
    names = [f"adapter_model-0000{index}-of-00002.safetensors" for index in (1, 2)]
    places = {name: file for file, part in zip(names, parts, strict=True) for name in part}
    index = json.dumps({"metadata": {}, "weight_map": places}).encode()
    files = {file: safetensors_bytes(part) for file, part in zip(names, parts, strict=True)}
    return {**files, "adapter_model.safetensors.index.json": index}


def _config(name: str, refusal: Refusal, **settings: Any) -> BadAdapter:
    return BadAdapter(name, refusal, adapter_files(config=settings))


def _without_setting(name: str, setting: str) -> BadAdapter:
    files = adapter_files()
    kept = {key: value for key, value in json.loads(files[CONFIG]).items() if key != setting}
    return BadAdapter(name, Refusal.SETTING_INVALID, {**files, CONFIG: json.dumps(kept).encode()})


def _tensors(name: str, refusal: Refusal, edit: Callable[[Tensors], None], **settings: Any) -> BadAdapter:
    return BadAdapter(name, refusal, adapter_files(config=settings, edit=edit))


def _added(name: str, refusal: Refusal, key: str, *shape: int, **settings: Any) -> BadAdapter:
    return _tensors(name, refusal, lambda t: t.update({key: np.zeros(shape, np.float32)}), **settings)


def _weights(name: str, refusal: Refusal, weights: bytes) -> BadAdapter:
    return BadAdapter(name, refusal, adapter_files(files={WEIGHTS: weights}))


def _raw_config(name: str, text: bytes) -> BadAdapter:
    return BadAdapter(name, Refusal.JSON_INVALID, adapter_files(files={CONFIG: text}))


def _set(key: str, value: float) -> Callable[[Tensors], None]:
    def edit(tensors: Tensors) -> None:
        tensors[key][-1, -1] = value

    return edit


def _drop(key: str) -> Callable[[Tensors], None]:
    def edit(tensors: Tensors) -> None:
        del tensors[key]

    return edit


def _transpose(tensors: Tensors) -> None:
    for name in tensors:
        tensors[name] = np.ascontiguousarray(tensors[name].T)


def _file_cases() -> list[BadAdapter]:
    good = adapter_files()
    weights = good[WEIGHTS]
    sharded = without(adapter_files(files=shards(adapter_tensors(tiny_base_shape()), lambda n: ".1." in n)), WEIGHTS)
    halves = without(adapter_files(files=shards(adapter_tensors(tiny_base_shape()), lambda n: "lora_B" in n)), WEIGHTS)
    second = "adapter_model-00002-of-00002.safetensors"
    index = "adapter_model.safetensors.index.json"
    named_twice = {**sharded, second: sharded["adapter_model-00001-of-00002.safetensors"]}
    return [
        BadAdapter("config_missing", Refusal.CONFIG_MISSING, without(good, CONFIG)),
        BadAdapter("weights_missing", Refusal.WEIGHTS_MISSING, without(good, WEIGHTS)),
        BadAdapter("pickle_only", Refusal.WEIGHTS_PICKLED, without(good, WEIGHTS), ignored=("adapter_model.bin",)),
        BadAdapter("single_and_shards", Refusal.WEIGHTS_AMBIGUOUS, {**good, **sharded}),
        BadAdapter("shard_missing", Refusal.SHARDS_INVALID, without(sharded, second)),
        BadAdapter("shard_index_missing", Refusal.SHARDS_INVALID, without(sharded, index)),
        BadAdapter("shard_index_empty", Refusal.SHARDS_INVALID, {**sharded, index: b"{}"}),
        BadAdapter("shard_twice", Refusal.SHARDS_INVALID, named_twice),
        BadAdapter("shard_lacks_tensor", Refusal.SHARDS_INVALID, {**sharded, second: safetensors_bytes({})}),
        BadAdapter("halves_in_two_shards", Refusal.SHARDS_INVALID, halves),
        _weights("no_tensors", Refusal.WEIGHTS_EMPTY, safetensors_bytes({})),
        _weights("zero_bytes", Refusal.SAFETENSORS_INVALID, b""),
        _weights("truncated", Refusal.SAFETENSORS_INVALID, weights[: len(weights) * 6 // 10]),
        _weights("trailing_bytes", Refusal.SAFETENSORS_INVALID, weights + bytes(32)),
        _weights("huge_header", Refusal.SAFETENSORS_INVALID, (1 << 40).to_bytes(8, "little") + weights[8:]),
        _weights("overlap", Refusal.SAFETENSORS_INVALID, _two_tensors([0, 64], [32, 96], 96)),
        _weights("gap", Refusal.SAFETENSORS_INVALID, _two_tensors([0, 64], [68, 132], 132)),
        _weights("wrong_size", Refusal.SAFETENSORS_INVALID, _two_tensors([0, 64], [64, 132], 132)),
        _weights("pickle_renamed", Refusal.SAFETENSORS_INVALID, b"\x80\x04" + bytes(64)),
        BadAdapter("int8", Refusal.DTYPE_UNSUPPORTED, adapter_files(dtype="I8")),
        BadAdapter("float64", Refusal.DTYPE_UNSUPPORTED, adapter_files(dtype="F64")),
        BadAdapter("huge_json", Refusal.FILE_TOO_LARGE, adapter_files(config={"revision": "x" * (1 << 20)})),
        _raw_config("config_list", b"[]"),
        _raw_config("config_empty", b""),
        _raw_config("config_deep", b'{"x":' + b"[" * 4000 + b"]" * 4000 + b"}"),
        _raw_config("config_nan", good[CONFIG].replace(b'"lora_alpha": 16', b'"lora_alpha": NaN')),
        _raw_config("config_infinite", good[CONFIG].replace(b'"lora_alpha": 16', b'"lora_alpha": 1e999')),
        _raw_config("config_twice", good[CONFIG].replace(b'"r": 8', b'"r": 1, "r": 8')),
        _raw_config("config_latin1", good[CONFIG].replace(b"LORA", b"L\xd6RA")),
        _raw_config("config_half_character", good[CONFIG].replace(b"q_proj", b"\\ud800")),
        _raw_config("config_huge_number", good[CONFIG].replace(b'"r": 8', b'"r": ' + b"9" * 5000)),
    ]


def _two_tensors(first: list[int], second: list[int], size: int) -> bytes:
    entry = {"dtype": "F32", "shape": [4, 4]}
    return pack({"a": {**entry, "data_offsets": first}, "b": {**entry, "data_offsets": second}}, bytes(size))


def _setting_cases() -> list[BadAdapter]:
    return [
        _config("rank_string", Refusal.SETTING_INVALID, r="8"),
        _config("rank_float", Refusal.SETTING_INVALID, r=8.0),
        _config("rank_bool", Refusal.SETTING_INVALID, r=True),
        _config("alpha_string", Refusal.SETTING_INVALID, lora_alpha="16"),
        _config("alpha_null", Refusal.SETTING_INVALID, lora_alpha=None),
        _without_setting("alpha_missing", "lora_alpha"),
        _without_setting("rank_missing", "r"),
        _config("targets_number", Refusal.SETTING_INVALID, target_modules=7),
        _config("alpha_huge_integer", Refusal.SETTING_INVALID, lora_alpha=10**400),
        _config("dropout_string", Refusal.SETTING_INVALID, lora_dropout="much"),
        _config("targets_null", Refusal.SETTING_INVALID, target_modules=None),
        _config("targets_empty", Refusal.SETTING_INVALID, target_modules=[]),
        _config("targets_numbers", Refusal.SETTING_INVALID, target_modules=[1, 2]),
        _config("layers_text", Refusal.SETTING_INVALID, layers_to_transform=["0"]),
        _config("layers_with_regex", Refusal.SETTING_INVALID, target_modules=".*q_proj", layers_to_transform=[0]),
        _config("pattern_without_layers", Refusal.SETTING_INVALID, layers_pattern="layers"),
        _config("rank_pattern_list", Refusal.SETTING_INVALID, rank_pattern=["q_proj"]),
        _config("alpha_pattern_text", Refusal.SETTING_INVALID, alpha_pattern={"q_proj": "32"}),
        _config("rslora_text", Refusal.SETTING_INVALID, use_rslora="yes"),
        _config("base_name_number", Refusal.SETTING_INVALID, base_model_name_or_path=7),
        _config("auto_mapping_text", Refusal.SETTING_INVALID, auto_mapping="os.system"),
        _config("group_size_text", Refusal.SETTING_INVALID, qalora_group_size="16"),
        _config("unknown_setting", Refusal.SETTING_UNKNOWN, use_future_lora=True),
        _config("unknown_false", Refusal.SETTING_UNKNOWN, use_future_lora=False),
        _config("peft_type_missing", Refusal.PEFT_TYPE_UNSUPPORTED, peft_type=None),
        _config("loha", Refusal.PEFT_TYPE_UNSUPPORTED, peft_type="LOHA"),
        _config("classifier", Refusal.TASK_TYPE_UNSUPPORTED, task_type="SEQ_CLS"),
        _config("dora", Refusal.DORA_UNSUPPORTED, use_dora=True),
        _config("bias_all", Refusal.BIAS_UNSUPPORTED, bias="all"),
        _config("lora_bias", Refusal.LORA_BIAS_UNSUPPORTED, lora_bias=True),
        _config("modules_to_save", Refusal.MODULES_TO_SAVE_UNSUPPORTED, modules_to_save=["lm_head"]),
        _config("trainable_tokens", Refusal.TRAINABLE_TOKENS_UNSUPPORTED, trainable_token_indices=[1]),
        _config("alora", Refusal.ALORA_UNSUPPORTED, alora_invocation_tokens=[1, 2]),
        _config("qalora", Refusal.QALORA_UNSUPPORTED, use_qalora=True),
        _config("layer_replication", Refusal.LAYER_REPLICATION_UNSUPPORTED, layer_replication=[[0, 2], [1, 2]]),
        _config("target_parameters", Refusal.TARGET_PARAMETERS_UNSUPPORTED, target_parameters=["mlp.w"]),
        _config("kasa", Refusal.VARIANT_UNSUPPORTED, kasa_config={"beta": 1e-4}),
        _config("mica", Refusal.VARIANT_UNSUPPORTED, init_lora_weights="mica"),
        _config("megatron", Refusal.VARIANT_UNSUPPORTED, megatron_config={"x": 1}),
        _config("pissa", Refusal.BASE_CHANGING_INIT, init_lora_weights="pissa_niter_4"),
        _config("olora", Refusal.BASE_CHANGING_INIT, init_lora_weights="OLoRA"),
        _config("loftq", Refusal.BASE_CHANGING_INIT, loftq_config={"loftq_bits": 4}),
        _config("rank_zero", Refusal.RANK_INVALID, r=0),
        _config("rank_negative_pattern", Refusal.RANK_INVALID, rank_pattern={"q_proj": -1}),
        _config("rank_huge", Refusal.RANK_OVER_LIMIT, r=10**18),
        BadAdapter("rank_over_limit", Refusal.RANK_OVER_LIMIT, adapter_files(rank=17)),
        _config("rank_over_limit_by_pattern", Refusal.RANK_OVER_LIMIT, rank_pattern={"layers.0.*q_proj": 32}),
        _config("scaling_infinite", Refusal.SCALING_INVALID, lora_alpha=1e300),
        _config("other_base", Refusal.BASE_MISMATCH, base_model_name_or_path="othercorp/other-llama"),
        _config("base_undeclared", Refusal.BASE_UNDECLARED, base_model_name_or_path=None),
    ]


def _target_cases() -> list[BadAdapter]:
    return [
        _config("targets_nothing", Refusal.TARGETS_MATCH_NOTHING, target_modules=["query"]),
        _config("targets_excluded", Refusal.TARGETS_MATCH_NOTHING, exclude_modules=["q_proj", "v_proj"]),
        _config("targets_lm_head", Refusal.TARGET_UNSUPPORTED, target_modules=["q_proj", "lm_head"]),
        _config("targets_embedding", Refusal.TARGET_UNSUPPORTED, target_modules=["embed_tokens"]),
        _config("targets_a_block", Refusal.TARGET_UNSUPPORTED, target_modules=["mlp"]),
        _config("targets_fused", Refusal.FUSED_NAMES, target_modules=["qkv_proj", "gate_up_proj"]),
        _config("regex_broken", Refusal.PATTERN_INVALID, target_modules=".*(q_proj"),
        _config("regex_fuzzy", Refusal.PATTERN_INVALID, target_modules="(?:q_proj){e<=2}"),
        _config("regex_flags", Refusal.PATTERN_INVALID, target_modules="(?i).*Q_PROJ"),
        _config("regex_repeats", Refusal.PATTERN_INVALID, target_modules="((((a?){99}){99}){99}){99}"),
        _config("regex_long", Refusal.PATTERN_INVALID, rank_pattern={"q" * 2000: 8}),
        _config("layers_pattern_regex", Refusal.PATTERN_INVALID, layers_to_transform=[0], layers_pattern="(l|h)+"),
    ]


def _tensor_cases() -> list[BadAdapter]:
    half_a, half_b = f"{FIRST}.lora_A.weight", f"{FIRST}.lora_B.weight"
    layer_9 = f"{PREFIX}model.layers.9.self_attn.q_proj.lora_A.weight"
    expert = f"{PREFIX}model.layers.0.mlp.experts.0.up_proj.lora_A.weight"
    qkv = f"{PREFIX}model.layers.0.self_attn.qkv_proj.lora_A.weight"
    k_proj = f"{PREFIX}model.layers.0.self_attn.k_proj.lora_A.weight"
    norm = f"{PREFIX}model.layers.0.input_layernorm"
    wrapped = ("model.model.", "model.language_model.model.")
    return [
        _tensors("wrapper_prefix", Refusal.KEYS_MATCH_NOTHING, lambda t: rename(t, lambda n: n.replace(*wrapped))),
        _added("layer_out_of_range", Refusal.LAYER_OUT_OF_RANGE, layer_9, 8, 64),
        _added("fused_tensor", Refusal.FUSED_NAMES, qkv, 8, 64),
        _added("expert_tensor", Refusal.EXPERT_TENSORS, expert, 8, 64),
        _added("odd_module", Refusal.TENSOR_UNPLACED, f"{norm}.lora_A.weight", 8, 64),
        _added("leading_zero", Refusal.TENSOR_UNPLACED, half_a.replace(".0.", ".00."), 8, 64),
        _added("norm_weight", Refusal.TENSOR_UNEXPECTED, f"{norm}.weight", 64),
        _added("linear_bias", Refusal.BIAS_UNSUPPORTED, f"{FIRST}.bias", 64),
        _added("lora_bias_tensor", Refusal.LORA_BIAS_UNSUPPORTED, f"{FIRST}.lora_B.bias", 64),
        _added("magnitude_vector", Refusal.DORA_UNSUPPORTED, f"{FIRST}.lora_magnitude_vector", 64),
        _added("head_lora", Refusal.TARGET_UNSUPPORTED, f"{PREFIX}lm_head.lora_A.weight", 8, 64),
        _added("embedding_lora", Refusal.TARGET_UNSUPPORTED, f"{PREFIX}model.embed_tokens.lora_embedding_A", 8, 64),
        _added("whole_head", Refusal.MODULES_TO_SAVE_UNSUPPORTED, f"{PREFIX}lm_head.weight", 4, 64),
        _added(
            "token_rows",
            Refusal.TRAINABLE_TOKENS_UNSUPPORTED,
            f"{PREFIX}model.embed_tokens.token_adapter.trainable_tokens_delta",
            2,
            64,
        ),
        _added("twice", Refusal.TENSOR_DUPLICATE, half_a.replace("lora_A", "lora_A.default"), 8, 64),
        _added("untargeted", Refusal.TENSOR_UNTARGETED, k_proj, 8, 64),
        _tensors("half_missing", Refusal.MODULE_INCOMPLETE, _drop(half_b)),
        _config("targeted_without_tensors", Refusal.MODULE_INCOMPLETE, target_modules=["q_proj", "v_proj", "o_proj"]),
        _tensors("transposed", Refusal.SHAPE_MISMATCH, _transpose),
        _tensors("wider_base", Refusal.SHAPE_MISMATCH, lambda t: t.update({half_a: np.zeros((8, 128), np.float32)})),
        _tensors("one_dimension", Refusal.SHAPE_MISMATCH, lambda t: t.update({half_a: np.zeros(512, np.float32)})),
        _tensors("no_dimension", Refusal.SHAPE_MISMATCH, lambda t: t.update({half_a: np.float32(1).reshape(())})),
        _config("rank_mismatch", Refusal.RANK_MISMATCH, r=4),
        _config("rank_pattern_mismatch", Refusal.RANK_MISMATCH, rank_pattern={"layers.1.self_attn.q_proj": 4}),
        _tensors("nan", Refusal.VALUES_NOT_FINITE, _set(half_b, np.nan)),
        _tensors("infinity", Refusal.VALUES_NOT_FINITE, _set(half_a, -np.inf)),
        _tensors("overflow_by_scaling", Refusal.VALUES_OVERFLOW, _set(half_b, 3e38)),
    ]


def _vocabulary_cases() -> list[BadAdapter]:
    def added(tokens: object) -> Files:
        return adapter_files(files={"added_tokens.json": json.dumps(tokens).encode()})

    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    tokenizer = json.dumps({"model": model, "added_tokens": []}).encode()
    template = {"chat_template.jinja": b"{{ messages[0].content }}"}
    return [
        BadAdapter("extra_token", Refusal.EXTRA_VOCABULARY, added({"<new>": 320})),
        BadAdapter("token_without_id", Refusal.JSON_INVALID, added({"<new>": "320"})),
        BadAdapter(
            "tokenizer_not_comparable",
            Refusal.TOKENIZER_DIFFERS,
            adapter_files(files={"tokenizer.json": tokenizer}),
        ),
        BadAdapter("chat_template", Refusal.CHAT_TEMPLATE_DIFFERS, adapter_files(files=template)),
    ]


BAD_ADAPTERS: tuple[BadAdapter, ...] = (
    *_file_cases(),
    *_setting_cases(),
    *_target_cases(),
    *_tensor_cases(),
    *_vocabulary_cases(),
)
