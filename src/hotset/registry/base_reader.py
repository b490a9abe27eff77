"""Reads a base model's files into a `BaseVersion`: shape from config.json, proven by the weights' own headers.

Taken are dense Llama, Mistral, Qwen2 and Qwen3 causal language models in Hugging Face format with safetensors weights
in float32, float16 or bfloat16, with any rotary scaling (an engine that can't compute one refuses the base at start).
Quantised, mixture-of-experts and multimodal models are refused.

Source: the ``config.json`` of each family as transformers reads it, with its defaults.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from hotset.core.base import LINEARS, BaseShape, BaseVersion
from hotset.core.errors import VersionRefusedError
from hotset.core.ids import Digest, parse_base_name
from hotset.registry.artifact import TOKENIZER_FILES
from hotset.registry.digests import base_digest
from hotset.registry.json_strict import parse_object
from hotset.registry.refusals import Refusal, refusal, shown
from hotset.registry.safetensors_header import TensorEntry, parse_header
from hotset.registry.tokenizer_facts import read_tokenizer_facts
from hotset.registry.weights import SERVED_DTYPES

#: Model type to architecture.
FAMILIES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_INDEX_FILE = "model.safetensors.index.json"
_OTHER_FILES = ("config.json", "generation_config.json", _INDEX_FILE)
_INDEX_BYTES_MAX = 16 << 20
#: Sizes above this are no size of a model; it keeps every product small.
_SIZE_MAX = 1 << 30
_LAYERS_MAX = 1024


def counts_for_base(name: str) -> bool:
    """Return whether a file of this name is under a base version's digest."""
    return name.endswith(".safetensors") or name in _OTHER_FILES or name in TOKENIZER_FILES


def read_base(
    name: str,
    synonyms: Iterable[str],
    contents: Mapping[str, bytes | memoryview],
    digests: Mapping[str, Digest],
) -> BaseVersion:
    """Return the base version that the files fix.

    Args:
        name: Under which the base is registered.
        synonyms: Other names under which adapters may declare it.
        contents: Every file for which `counts_for_base` holds, whole, by name.
        digests: Of the same files.

    Raises:
        InvalidNameError: `name` is not well-formed.
        VersionRefusedError: ``base_unsupported``, ``base_invalid``, ``safetensors_invalid`` or ``json_invalid``.
    """
    assert contents.keys() == digests.keys(), "each file needs its digest"
    base_name = parse_base_name(name)
    if "config.json" not in contents:
        raise _invalid("there is no config.json", "config.json")
    shape = read_shape(parse_object(contents["config.json"], "config.json"))
    _check_weights(_read_headers(contents), shape)
    files = dict(sorted(digests.items()))
    return BaseVersion(
        name=base_name,
        digest=base_digest(files),
        synonyms=tuple(dict.fromkeys(synonyms)),
        shape=shape,
        tokenizer=read_tokenizer_facts(contents),
        files=files,
    )


def read_shape(config: Mapping[str, Any]) -> BaseShape:
    """Return the shape in a parsed config.json.

    Raises:
        VersionRefusedError: ``base_unsupported`` or ``base_invalid``.
    """
    family = config.get("model_type")
    _check_family(config, family)
    num_heads = _size(config, "num_attention_heads")
    hidden_size = _size(config, "hidden_size")
    # A family's own defaults: Qwen3 alone has a head size that does not follow from the others.
    default_head_dim = 128 if family == "qwen3" else hidden_size // num_heads
    default_kv_heads = num_heads if family == "llama" else None
    return BaseShape(
        family=str(family),
        hidden_size=hidden_size,
        intermediate_size=_size(config, "intermediate_size"),
        num_layers=_size(config, "num_hidden_layers", size_max=_LAYERS_MAX),
        num_heads=num_heads,
        num_kv_heads=_size(config, "num_key_value_heads", default_kv_heads),
        head_dim=_size(config, "head_dim", default_head_dim),
        vocab_size=_size(config, "vocab_size"),
        context_len=_size(config, "max_position_embeddings"),
        tie_word_embeddings=config.get("tie_word_embeddings") is True,
    )


def _check_family(config: Mapping[str, Any], family: object) -> None:
    if not isinstance(family, str) or family not in FAMILIES:
        served = ", ".join(FAMILIES)
        raise _unsupported(f"model_type is {shown(family)}; served are {served}", "model_type")
    architectures = config.get("architectures")
    if architectures != [FAMILIES[family]]:
        why = f"architectures is {shown(architectures)}; expected [{FAMILIES[family]!r}]"
        raise _unsupported(why, "architectures")
    for setting in ("quantization_config", "compression_config", "num_experts", "num_local_experts"):
        if config.get(setting):
            raise _unsupported(f"{setting} is set; only dense models with plain weights are served", setting)
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise _unsupported(f"hidden_act is {shown(config['hidden_act'])}; served is silu", "hidden_act")


def _size(config: Mapping[str, Any], name: str, default: int | None = None, *, size_max: int = _SIZE_MAX) -> int:
    value = config.get(name)
    if value is None:
        value = default
    if type(value) is not int or not 1 <= value <= size_max:
        raise _invalid(f"{name} is {shown(value)}; expected a whole number from 1 to {size_max}", name)
    return value


def _read_headers(contents: Mapping[str, bytes | memoryview]) -> dict[str, TensorEntry]:
    files = sorted(name for name in contents if name.endswith(".safetensors"))
    if _INDEX_FILE in contents:
        files = _indexed_files(contents, files)
    elif "model.safetensors" in files:
        files = ["model.safetensors"]
    else:
        raise _invalid("there is neither model.safetensors nor an index of shards", "model.safetensors")
    tensors: dict[str, TensorEntry] = {}
    for file in files:
        entries = parse_header(memoryview(contents[file]), file)
        twice = next((name for name in entries if name in tensors), None)
        if twice is not None:
            raise _invalid(f"{shown(twice)} is in two shards", file)
        tensors.update(entries)
    return tensors


def _indexed_files(contents: Mapping[str, bytes | memoryview], files: list[str]) -> list[str]:
    index = parse_object(contents[_INDEX_FILE], _INDEX_FILE, bytes_max=_INDEX_BYTES_MAX)
    weight_map = index.get("weight_map")
    named = set(cast(dict[str, object], weight_map).values()) if isinstance(weight_map, dict) else set[object]()
    missing = sorted(str(file) for file in named if file not in files)
    if not named or missing:
        raise _invalid(f"{_INDEX_FILE} names files that are not there: {shown(missing)}", _INDEX_FILE)
    return sorted(str(file) for file in named)


def _check_weights(tensors: Mapping[str, TensorEntry], shape: BaseShape) -> None:
    for name, expected in _expected_shapes(shape).items():
        entry = tensors.get(name)
        if entry is None:
            raise _invalid(f"the weights lack {name}", name)
        if entry.shape != expected:
            raise _invalid(f"{name} has shape {list(entry.shape)}; config.json says {list(expected)}", name)
        if entry.dtype not in SERVED_DTYPES:
            raise _unsupported(f"{name} is stored as {entry.dtype}, not one of {SERVED_DTYPES}", name)
    beyond = f"model.layers.{shape.num_layers}."
    extra = next((name for name in tensors if name.startswith(beyond)), None)
    if extra is not None:
        raise _invalid(f"{shown(extra)} belongs to a layer beyond num_hidden_layers", extra)


def _expected_shapes(shape: BaseShape) -> dict[str, tuple[int, ...]]:
    embedding = (shape.vocab_size, shape.hidden_size)
    expected: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": (shape.hidden_size,),
    }
    if not shape.tie_word_embeddings:
        expected["lm_head.weight"] = embedding
    for layer in range(shape.num_layers):
        for linear in LINEARS:
            expected[f"model.layers.{layer}.{linear}.weight"] = shape.linear_shape(linear)
    return expected


def _unsupported(why: str, subject: str) -> VersionRefusedError:
    return refusal(Refusal.BASE_UNSUPPORTED, f"This base is not served: {why}.", subject)


def _invalid(why: str, subject: str) -> VersionRefusedError:
    return refusal(Refusal.BASE_INVALID, f"The base's files do not agree: {why}.", subject)
