"""Blocks keep what is written to them, in order, and nothing once erased."""

import torch

from hotset.engines.embedded.kv_cache import KvCache
from tests.support.adapters import tiny_base_shape

_SHAPE = tiny_base_shape()


def make_cache() -> KvCache:
    return KvCache(_SHAPE, num_blocks=6, block_size=4, dtype=torch.float32)


def test_gather_returns_what_was_written() -> None:
    cache = make_cache()
    tokens = torch.randn((6, 2, _SHAPE.num_kv_heads, _SHAPE.head_dim))
    blocks = [5, 2]
    slots = torch.tensor([blocks[position // 4] * 4 + position % 4 for position in range(6)])
    cache.write(1, slots, tokens)
    keys, values = cache.gather(1, torch.tensor([blocks, [0, 0]]))
    assert keys.shape == (2, _SHAPE.num_kv_heads, 8, _SHAPE.head_dim)
    assert torch.equal(keys[0, :, :6].transpose(0, 1), tokens[:, 0])
    assert torch.equal(values[0, :, :6].transpose(0, 1), tokens[:, 1])
    assert not keys[1].any()
    assert not cache.gather(0, torch.tensor([blocks]))[0].any(), "layers are apart"


def test_erased_blocks_are_clear_in_every_layer() -> None:
    cache = make_cache()
    for layer in range(_SHAPE.num_layers):
        cache.write(layer, torch.tensor([4, 8]), torch.full((2, 2, _SHAPE.num_kv_heads, _SHAPE.head_dim), torch.nan))
    assert not cache.is_clear([1])
    cache.erase([1])
    assert cache.is_clear([0, 1, 3])
    assert not cache.is_clear([2])


def test_block_bytes() -> None:
    expected = _SHAPE.num_layers * 4 * 2 * _SHAPE.num_kv_heads * _SHAPE.head_dim * 2
    assert KvCache.block_bytes(_SHAPE, 4, torch.bfloat16) == expected
