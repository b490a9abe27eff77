"""Builds base folders from GGUF files: a tiny one made here, and (marked slow) the demo's own package."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize

from hotset.cli.demo.base_from_package import build_base
from hotset.core.errors import ConfigError, DigestMismatchError

HIDDEN, HEADS, KV_HEADS, MLP = 64, 2, 1, 96
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *"abcdefghijklmnop0123456789", "Ġ", "Ċ", "ab"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
SMOLLM_SAFETENSORS = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"


def write_gguf(path: Path) -> str:
    writer = GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, *([1] * (len(TOKENS) - 3))])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(5)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (MLP, HIDDEN),
        "ffn_up": (MLP, HIDDEN),
        "ffn_down": (HIDDEN, MLP),
    }
    for name, shape in shapes.items():
        weights = quantize(rng.normal(0, 0.2, shape).astype(np.float32), GGMLQuantizationType.Q4_1)
        writer.add_tensor(f"blk.0.{name}.weight", weights, raw_dtype=GGMLQuantizationType.Q4_1)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", rng.normal(1, 0.1, HIDDEN).astype(np.float32))
    embedding = rng.normal(0, 1, (len(TOKENS), HIDDEN)).astype(np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.fixture
def gguf(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "tiny.gguf"
    return path, write_gguf(path)


def test_the_same_file_gives_the_same_bytes(tmp_path: Path, gguf: tuple[Path, str]) -> None:
    for name in ("one", "two"):
        build_base(tmp_path / name, gguf[0], expected_sha256=gguf[1])

    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert set(digests(tmp_path / "one")) == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_the_weights_are_what_transformers_reads_from_the_same_file(tmp_path: Path, gguf: tuple[Path, str]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    build_base(tmp_path / "base", gguf[0], expected_sha256=gguf[1])

    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32).state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf", dtype=torch.float32).state_dict()
    assert set(ours) == set(theirs)
    for name, weights in theirs.items():
        assert torch.equal(ours[name].bfloat16(), weights.bfloat16()), name
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    assert tokenizer("ab12<|im_end|>")["input_ids"] == [TOKENS.index("ab"), 20, 21, 2]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "ab"


def test_progress_runs_from_the_first_byte_to_the_last(tmp_path: Path, gguf: tuple[Path, str]) -> None:
    seen: list[tuple[str, int, int]] = []

    build_base(tmp_path / "base", gguf[0], lambda *step: seen.append(step), gguf[1])

    for step in ("check the model file", "expand the weights"):
        last = [event for event in seen if event[0] == step][-1]
        assert last[1] == last[2] > 0


def test_another_file_is_refused_and_nothing_is_left(tmp_path: Path, gguf: tuple[Path, str]) -> None:
    gguf[0].write_bytes(gguf[0].read_bytes()[:-1] + b"x")

    with pytest.raises(DigestMismatchError, match="has SHA-256"):
        build_base(tmp_path / "base", gguf[0], expected_sha256=gguf[1])

    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.gguf is missing"):
        build_base(tmp_path / "base", tmp_path / "none.gguf")


def test_what_an_interrupted_build_left_is_replaced(tmp_path: Path, gguf: tuple[Path, str]) -> None:
    (tmp_path / ".base.partial").mkdir()
    (tmp_path / ".base.partial" / "model.safetensors").write_bytes(b"half")

    build_base(tmp_path / "base", gguf[0], expected_sha256=gguf[1])

    assert not (tmp_path / ".base.partial").exists()
    assert (tmp_path / "base" / "model.safetensors").stat().st_size > 4


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()

    build_base(tmp_path / "base", tmp_path / "none.gguf")

    assert list((tmp_path / "base").iterdir()) == []


@pytest.mark.slow
def test_the_package_gives_the_known_weights(tmp_path: Path) -> None:
    build_base(tmp_path / "base")

    assert digests(tmp_path / "base")["model.safetensors"] == SMOLLM_SAFETENSORS
