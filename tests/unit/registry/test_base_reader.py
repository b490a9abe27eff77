"""A base is what its config says and its weights bear out; everything else is refused."""

import json
from typing import Any

import numpy as np
import pytest

from hotset.core.errors import InvalidNameError, VersionRefusedError
from hotset.core.ids import Digest
from hotset.registry.base_reader import counts_for_base, read_base, read_shape
from tests.support.adapters import tiny_base_shape
from tests.support.bases import base_config, base_tensors
from tests.support.safetensors_writer import safetensors_bytes

SHAPE = tiny_base_shape()
INDEX = "model.safetensors.index.json"


def base_files(config: dict[str, Any] | None = None, dtype: str = "F32", **tensors: Any) -> dict[str, bytes]:
    values = {**base_tensors(SHAPE), **tensors}
    kept = {name: value for name, value in values.items() if value is not None}
    return {
        "config.json": json.dumps(base_config(SHAPE, **(config or {}))).encode(),
        "model.safetensors": safetensors_bytes(kept, dtype=dtype),
    }


def read(files: dict[str, bytes], name: str = "tiny") -> Any:
    digests = {file: Digest(f"sha256:{len(content):064x}") for file, content in files.items()}
    return read_base(name, ["acme/tiny", "acme/tiny"], files, digests)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_each_family_is_read(family: str) -> None:
    shape = tiny_base_shape(family=family)
    files = {
        "config.json": json.dumps(base_config(shape)).encode(),
        "model.safetensors": safetensors_bytes(base_tensors(shape), dtype="BF16"),
    }

    base = read(files)

    assert base.shape == shape
    assert base.synonyms == ("acme/tiny",)
    assert list(base.files) == ["config.json", "model.safetensors"]
    assert base.tokenizer.tokenizer is None


def test_the_digest_follows_every_file() -> None:
    files = base_files()

    one = read(files)
    other = read({**files, "generation_config.json": b"{}"})

    assert one.digest != other.digest
    assert one.digest == read(dict(reversed(files.items()))).digest


def test_sizes_that_a_config_leaves_out_follow_from_the_family() -> None:
    config = base_config(SHAPE)
    del config["head_dim"], config["num_key_value_heads"]

    shape = read_shape(config)

    assert (shape.head_dim, shape.num_kv_heads) == (16, 4)
    assert read_shape({**base_config(tiny_base_shape(family="qwen3")), "head_dim": None}).head_dim == 128
    with pytest.raises(VersionRefusedError, match="num_key_value_heads"):
        read_shape({**base_config(tiny_base_shape(family="mistral")), "num_key_value_heads": None})


def test_tied_embeddings_need_no_head() -> None:
    files = base_files({"tie_word_embeddings": True}, **{"lm_head.weight": None})

    assert read(files).shape.tie_word_embeddings


def test_shards_are_read_through_their_index() -> None:
    tensors = base_tensors(SHAPE)
    parts = [{n: v for n, v in tensors.items() if ("layers.1" in n) is second} for second in (False, True)]
    files = {f"model-0000{i}-of-00002.safetensors": safetensors_bytes(part) for i, part in enumerate(parts, 1)}
    places = {name: file for file, part in zip(files, parts, strict=True) for name in part}
    index = json.dumps({"weight_map": places}).encode()
    config = base_files()["config.json"]

    assert read({**files, INDEX: index, "config.json": config}).shape == SHAPE

    for broken in (
        {"config.json": config, **files},
        {"config.json": config, INDEX: index, **dict(list(files.items())[:1])},
        {"config.json": config, INDEX: b'{"weight_map": {}}', **files},
        {"config.json": config, INDEX: index, **dict.fromkeys(files, next(iter(files.values())))},
    ):
        with pytest.raises(VersionRefusedError) as caught:
            read(broken)
        assert caught.value.reason == "base_invalid"


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2"},
        {"model_type": None},
        {"model_type": ["llama"]},
        {"architectures": ["LlamaForSequenceClassification"]},
        {"architectures": None},
        {"quantization_config": {"quant_method": "gptq"}},
        {"num_experts": 8},
        {"hidden_act": "gelu"},
    ],
)
def test_a_base_of_another_kind_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(VersionRefusedError) as caught:
        read(base_files(config))

    assert caught.value.reason == "base_unsupported"


@pytest.mark.parametrize(
    "config",
    [
        {"hidden_size": 128},
        {"hidden_size": "64"},
        {"hidden_size": None},
        {"num_hidden_layers": 3},
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 10**9},
        {"num_attention_heads": 0},
        {"intermediate_size": True},
        {"vocab_size": 321},
        {"num_key_value_heads": 4},
        {"head_dim": 32},
    ],
)
def test_a_config_that_the_weights_contradict_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(VersionRefusedError) as caught:
        read(base_files(config))

    assert caught.value.reason == "base_invalid"


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_weights_that_lack_a_tensor_are_refused(name: str) -> None:
    with pytest.raises(VersionRefusedError, match=f"lack {name}"):
        read(base_files(**{name: None}))


def test_weights_in_another_number_format_are_refused() -> None:
    with pytest.raises(VersionRefusedError, match="stored as I8") as caught:
        read(base_files(dtype="I8"))
    assert caught.value.reason == "base_unsupported"


def test_a_transposed_linear_is_refused() -> None:
    name = "model.layers.0.mlp.up_proj.weight"

    with pytest.raises(VersionRefusedError, match="has shape"):
        read(base_files(**{name: np.zeros((64, 160), np.float32)}))


def test_files_that_are_missing_or_misnamed_are_refused() -> None:
    files = base_files()

    for broken in ({"config.json": files["config.json"]}, {"model.safetensors": files["model.safetensors"]}):
        with pytest.raises(VersionRefusedError) as caught:
            read(broken)
        assert caught.value.reason == "base_invalid"
    with pytest.raises(InvalidNameError):
        read(files, name="../tiny")


def test_which_files_count() -> None:
    counted = ("config.json", "generation_config.json", "model.safetensors", INDEX, "tokenizer.json", "vocab.json")

    assert all(map(counts_for_base, counted))
    assert not any(map(counts_for_base, ("pytorch_model.bin", "README.md", "modeling_custom.py", "training_args.bin")))
