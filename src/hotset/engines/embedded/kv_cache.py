"""The keys and values of all sequences, in blocks.

A block holds `block_size` tokens of every layer. Freed blocks are zeroed, so that what one sequence left behind,
a NaN above all, can't reach another: masking alone would not do, since 0 * NaN is NaN.
"""

from collections.abc import Sequence

import torch

from hotset.core.base import BaseShape


class KvCache:
    """Keys and values, [num_layers, num_blocks, block_size, 2, num_kv_heads, head_dim]; block 0 stays zero."""

    def __init__(self, shape: BaseShape, num_blocks: int, block_size: int, dtype: torch.dtype) -> None:
        self.block_size = block_size
        self._blocks = torch.zeros(
            (shape.num_layers, num_blocks, block_size, 2, shape.num_kv_heads, shape.head_dim), dtype=dtype
        )
        # Views made once: slicing a layer out in every step would cost as much as small kernels do.
        self._by_block = [layer.view(num_blocks, -1) for layer in self._blocks]
        self._by_token = [layer.view(-1, 2, shape.num_kv_heads, shape.head_dim) for layer in self._blocks]
        self._token_shape = (2, shape.num_kv_heads, shape.head_dim)

    @staticmethod
    def block_bytes(shape: BaseShape, block_size: int, dtype: torch.dtype) -> int:
        """Return the bytes of one block over all layers."""
        return shape.num_layers * block_size * 2 * shape.num_kv_heads * shape.head_dim * dtype.itemsize

    def write(self, layer: int, slots: torch.Tensor, keys_values: torch.Tensor) -> None:
        """Store keys and values [num_tokens, 2, num_kv_heads, head_dim] at `slots` (block * block_size + offset)."""
        self._by_token[layer].index_copy_(0, slots, keys_values)

    def gather(self, layer: int, tables: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of block tables [num_sequences, num_blocks].

        Returns:
            Two views [num_sequences, num_kv_heads, num_blocks * block_size, head_dim].
        """
        gathered = self._by_block[layer].index_select(0, tables.view(-1))
        gathered = gathered.view(tables.shape[0], -1, *self._token_shape)
        return gathered[:, :, 0].transpose(1, 2), gathered[:, :, 1].transpose(1, 2)

    @torch.inference_mode()
    def erase(self, blocks: Sequence[int]) -> None:
        """Zero blocks."""
        self._blocks.index_fill_(1, torch.tensor(blocks), 0)

    def is_clear(self, blocks: Sequence[int]) -> bool:
        """Whether the blocks hold nothing but zeros."""
        return not self._blocks.index_select(1, torch.tensor(blocks, dtype=torch.int64)).any().item()
