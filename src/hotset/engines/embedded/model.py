"""The forward pass of the dense Llama family (Llama, Mistral, Qwen2, Qwen3) over a flat batch of tokens.

All sequences' tokens go through each linear together, decodes and prompt pieces alike; only attention looks at
sequences one by one or, for decodes, as one padded batch.
"""

import torch
from torch.nn import functional

from hotset.engines.embedded.batch import Batch, PrefillPart
from hotset.engines.embedded.kv_cache import KvCache
from hotset.engines.embedded.lora_pool import DOWN, GATE_UP, OUT, QKV
from hotset.engines.embedded.lora_product import add_lora
from hotset.engines.embedded.model_config import ModelConfig
from hotset.engines.embedded.rope import rope_tables
from hotset.engines.embedded.weights import LayerWeights, ModelWeights


class Model:
    """A base model with room for adapters' parts in every linear."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, *, length_max: int) -> None:
        shape = config.shape
        self._weights = weights
        self._eps = config.rms_norm_eps
        self._num_heads = shape.num_heads
        self._num_kv_heads = shape.num_kv_heads
        self._head_dim = shape.head_dim
        self._rotated = shape.num_heads + shape.num_kv_heads
        self._intermediate = shape.intermediate_size
        dtype = weights.embedding.dtype
        #: Added to a mean square, as a tensor so that one kernel does it.
        self._eps_tensor = torch.full((1, 1), config.rms_norm_eps)
        self._cosines, self._sines = rope_tables(config.rope, shape.head_dim, length_max, dtype)

    def forward(self, batch: Batch, cache: KvCache) -> torch.Tensor:
        """Return the last layer's normalised output [num_tokens, hidden], storing keys and values in the cache."""
        hidden = functional.embedding(batch.token_ids, self._weights.embedding)
        angles = self._cosines[batch.positions], self._sines[batch.positions]
        for index, layer in enumerate(self._weights.layers):
            x = self._norm(hidden, layer.input_norm)
            qkv = layer.qkv(x)
            add_lora(batch.lora, index, QKV, x, qkv)
            attended = self._attend(batch, cache, index, self._rotate(qkv, layer, angles))
            output = layer.o(attended)
            add_lora(batch.lora, index, OUT, attended, output)
            hidden.add_(output)
            x = self._norm(hidden, layer.post_norm)
            gate_up = layer.gate_up(x)
            add_lora(batch.lora, index, GATE_UP, x, gate_up)
            x = functional.silu(gate_up[:, : self._intermediate]).mul_(gate_up[:, self._intermediate :])
            output = layer.down(x)
            add_lora(batch.lora, index, DOWN, x, output)
            hidden.add_(output)
        return self._norm(hidden, self._weights.norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [num_rows, vocab_size] of rows of `forward`'s output."""
        return self._weights.lm_head(hidden).float()

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return x over its root mean square, in float32 until the end; fewer kernels than PyTorch's own."""
        precise = x.float()
        norms = torch.linalg.vector_norm(precise, dim=-1, keepdim=True)
        scales = torch.addcmul(self._eps_tensor, norms, norms, value=1 / x.shape[-1]).rsqrt_()
        return (precise * scales).mul_(weight).to(x.dtype)

    def _rotate(
        self, qkv: torch.Tensor, layer: LayerWeights, angles: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        """Normalise (where the family does) and rotate q and k in place; return [tokens, heads, head_dim]."""
        heads = qkv.view(len(qkv), -1, self._head_dim)
        rotated = heads[:, : self._rotated]
        if layer.qk_norm is not None:
            normed = functional.rms_norm(rotated, (self._head_dim,), None, self._eps)
            torch.mul(normed, layer.qk_norm, out=rotated)
        pairs = rotated.view(len(qkv), self._rotated, 2, -1)
        swapped = pairs.flip(2)
        pairs.mul_(angles[0]).addcmul_(swapped, angles[1])
        return heads

    def _attend(self, batch: Batch, cache: KvCache, layer: int, heads: torch.Tensor) -> torch.Tensor:
        queries = heads[:, : self._num_heads]
        if batch.slots is not None:
            keys_values = heads[:, self._num_heads :].view(len(heads), 2, self._num_kv_heads, self._head_dim)
            cache.write(layer, batch.slots, keys_values)
        parts: list[torch.Tensor] = []
        if batch.decode is not None:
            rows = batch.decode.num_rows
            # The query heads that share a key head take the place of query positions: nothing is repeated.
            grouped = queries[:rows].view(rows, self._num_kv_heads, -1, self._head_dim)
            keys, values = cache.gather(layer, batch.decode.tables)
            attended = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=batch.decode.mask)
            parts.append(attended.reshape(rows, -1))
        parts += [self._attend_prefill(part, cache, layer, heads) for part in batch.prefills]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend_prefill(self, part: PrefillPart, cache: KvCache, layer: int, heads: torch.Tensor) -> torch.Tensor:
        rows = heads[part.first_row : part.last_row]
        queries = rows[:, : self._num_heads].transpose(0, 1)[None]
        if part.table is None:
            keys = rows[:, self._num_heads : self._rotated].transpose(0, 1)[None]
            values = rows[:, self._rotated :].transpose(0, 1)[None]
            attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
        else:
            keys, values = cache.gather(layer, part.table)
            positions = torch.arange(part.start, part.start + len(rows))
            visible = torch.arange(keys.shape[2]) <= positions[:, None]
            attended = functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=visible, enable_gqa=True
            )
        return attended[0].transpose(0, 1).reshape(len(rows), -1)
