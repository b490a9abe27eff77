"""What the engine says of the machine, and how it treats numbers next to zero."""

import pytest
import torch

from hotset.engines.embedded.hardware import (
    dtype_name,
    hardware_class,
    one_thread,
    serving_dtype,
    subnormals_as_zero,
)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_dtypes_by_name(name: str) -> None:
    assert dtype_name(serving_dtype(name)) == name


def test_auto_follows_the_processor() -> None:
    has_bfloat16 = hardware_class() in ("cpu-amx_bf16", "cpu-avx512_bf16")
    assert serving_dtype("auto") == (torch.bfloat16 if has_bfloat16 else torch.float32)


def test_subnormals_are_zero_inside_only() -> None:
    tiny = torch.full((4,), 1e-40)
    with subnormals_as_zero():
        assert not (tiny * 1.0).any()
    assert (tiny * 1.0).all()


def test_one_thread_is_for_the_block_alone() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
