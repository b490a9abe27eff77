"""Makes a tiny base model in Hugging Face format: config, weights, a real byte-level tokenizer, a chat template.

Needs numpy and tokenizers; transformers loads what it writes. Nothing is downloaded.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from hotset.core.base import LINEARS, BaseShape
from tests.support.adapters import tiny_base_shape
from tests.support.safetensors_writer import write_safetensors

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
_MERGES = (("h", "e"), ("t", "he"), ("i", "n"), ("Ġ", "the"), ("a", "n"), ("e", "r"))
_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def base_config(shape: BaseShape, **settings: Any) -> dict[str, Any]:
    """Return the config.json of a base of that shape; `settings` replace or add single entries."""
    config: dict[str, Any] = {
        "architectures": [_ARCHITECTURES[shape.family]],
        "model_type": shape.family,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": shape.context_len,
        "tie_word_embeddings": shape.tie_word_embeddings,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
        "bos_token_id": 262,
        "eos_token_id": 264,
        "pad_token_id": 265,
    }
    return {**config, **settings}


def base_tensors(shape: BaseShape, *, seed: int = 0, std: float = 0.15) -> dict[str, np.ndarray]:
    """Return the weights of a base of that shape, named as transformers names them."""
    random = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray] = {
        "model.embed_tokens.weight": random.normal(0, 1.0, (shape.vocab_size, shape.hidden_size)),
        "model.norm.weight": np.ones(shape.hidden_size),
    }
    if not shape.tie_word_embeddings:
        tensors["lm_head.weight"] = random.normal(0, std, (shape.vocab_size, shape.hidden_size))
    for layer in range(shape.num_layers):
        prefix = f"model.layers.{layer}."
        for linear in LINEARS:
            tensors[f"{prefix}{linear}.weight"] = random.normal(0, std, shape.linear_shape(linear))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = np.ones(shape.hidden_size)
        if shape.family == "qwen2":
            for linear in LINEARS[:3]:
                bias = random.normal(0, std, shape.linear_shape(linear)[0])
                tensors[f"{prefix}{linear}.bias"] = bias
        if shape.family == "qwen3":
            for norm in ("q_norm", "k_norm"):
                tensors[f"{prefix}self_attn.{norm}.weight"] = np.ones(shape.head_dim)
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def tiny_tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer of 266 tokens: 256 bytes, 6 merges, 4 special tokens (ids 262 to 265)."""
    vocab = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for left, right in _MERGES:
        vocab[left + right] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=list(_MERGES)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS])
    return tokenizer


def write_tokenizer(folder: Path, *, chat_template: str | None = CHAT_TEMPLATE) -> None:
    """Write tokenizer.json and tokenizer_config.json into `folder`."""
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|pad|>",
        "model_max_length": 1024,
        "clean_up_tokenization_spaces": False,
    }
    if chat_template is not None:
        settings["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))


def make_tiny_base(
    folder: Path, *, shape: BaseShape | None = None, seed: int = 0, dtype: str = "F32", **config: Any
) -> Path:
    """Write a tiny base model in Hugging Face format and return its folder.

    Args:
        folder: Made if need be.
        shape: `tiny_base_shape()` by default.
        seed: Fixes every weight.
        dtype: Of the stored weights.
        config: Entries of config.json to replace or add.
    """
    shape = shape or tiny_base_shape()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(base_config(shape, **config), indent=2))
    write_safetensors(folder / "model.safetensors", base_tensors(shape, seed=seed), dtype=dtype)
    write_tokenizer(folder)
    return folder
