"""Which files of a folder are part of a version is decided by their names alone."""

import pytest

from hotset.registry.artifact import TOKENIZER_FILES, counts, is_shard


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors", *TOKENIZER_FILES])
def test_the_files_of_a_version_count(name: str) -> None:
    assert counts(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "adapter_model.bin",
        "adapter_model.pt",
        "README.md",
        "../adapter_config.json",
        "Adapter_Config.json",
        "adapter_config.json\n",
        "adapter_config.json ",
        "model.safetensors",
        "training_args.bin",
        "modeling_custom.py",
        "adapter_model-1-of-2.safetensors",
        "adapter_model-00001-of-00002.safetensors.bak",
        "adapter_model-٠٠٠٠١-of-00002.safetensors",
    ],
)
def test_no_other_file_counts(name: str) -> None:
    assert not counts(name)
    assert not is_shard(name)


def test_shards_count() -> None:
    assert is_shard("adapter_model-00001-of-00002.safetensors")
    assert counts("adapter_model-00001-of-00002.safetensors")
    assert counts("adapter_model.safetensors.index.json")
