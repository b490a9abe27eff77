"""One step's tokens as tensors: decoding sequences, then prompt pieces, the base's first in both, then by adapter."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from hotset.core.ids import EngineName
from hotset.engines.embedded.lora_pool import LoraPool
from hotset.engines.embedded.lora_product import Block, LoraTerm, LoraTerms
from hotset.engines.embedded.scheduler import Chunk, Sequence, StepPlan


@dataclass(frozen=True, slots=True)
class DecodePart:
    """The first rows of the batch, one a sequence."""

    num_rows: int
    #: [num_rows, num_blocks], filled up with block 0.
    tables: torch.Tensor
    #: [num_rows, 1, 1, num_blocks * block_size], 0 or -inf.
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class PrefillPart:
    """Consecutive rows of one sequence's prompt."""

    first_row: int
    last_row: int
    #: Position of the first row.
    start: int
    #: [1, num_blocks]; None where nothing precedes the first row.
    table: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What the model computes in one step."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    #: Where each token's key and value go (block * block_size + offset); None keeps nothing.
    slots: torch.Tensor | None
    decode: DecodePart | None
    prefills: tuple[PrefillPart, ...]
    lora: tuple[LoraTerm, ...]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """A batch, and the rows whose next token is sampled."""

    batch: Batch
    sampled: tuple[Sequence, ...]
    sampled_rows: torch.Tensor


class BatchBuilder:
    """Turns step plans into batches."""

    def __init__(self, pool: LoraPool, *, block_size: int, dtype: torch.dtype) -> None:
        self._pool = pool
        self._terms = LoraTerms(pool)
        self._block_size = block_size
        self._dtype = dtype

    def build(self, plan: StepPlan) -> StepBatch:
        """Return the tensors of a step that computes at least one token."""
        decodes = sorted(plan.decodes, key=self._order)
        prefills = sorted(plan.prefills, key=lambda chunk: self._order(chunk.sequence))
        chunks = [Chunk(sequence, sequence.num_computed, 1) for sequence in decodes] + prefills
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        rows: list[int] = []
        for chunk in chunks:
            stop = chunk.start + chunk.num_tokens
            token_ids += chunk.sequence.tokens[chunk.start : stop]
            positions += range(chunk.start, stop)
            slots += self._slots(chunk.sequence.blocks, chunk.start, stop)
            if chunk.is_last:
                rows.append(len(token_ids) - 1)
        batch = Batch(
            token_ids=torch.tensor(token_ids),
            positions=torch.tensor(positions),
            slots=torch.tensor(slots),
            decode=self._decode_part(decodes) if decodes else None,
            prefills=self._prefill_parts(prefills, len(decodes)),
            lora=self._lora(chunks),
        )
        sampled = tuple(chunk.sequence for chunk in chunks if chunk.is_last)
        return StepBatch(batch, sampled, torch.tensor(rows, dtype=torch.int64))

    def build_whole(self, token_ids: Seq[int], name: EngineName | None) -> Batch:
        """Return a batch of one text on its own, whose keys and values are not kept."""
        length = len(token_ids)
        return Batch(
            token_ids=torch.tensor(token_ids),
            positions=torch.arange(length),
            slots=None,
            decode=None,
            prefills=(PrefillPart(0, length, 0, None),),
            lora=() if name is None else tuple(self._terms.of([Block(name, 0, length)])),
        )

    def _order(self, sequence: Sequence) -> int:
        return -1 if sequence.engine_name is None else self._pool.position(sequence.engine_name)

    def _slots(self, blocks: Seq[int], start: int, stop: int) -> list[int]:
        size = self._block_size
        return [blocks[position // size] * size + position % size for position in range(start, stop)]

    def _decode_part(self, decodes: Seq[Sequence]) -> DecodePart:
        size = self._block_size
        num_blocks = max(len(sequence.blocks) for sequence in decodes)
        tables = torch.tensor([sequence.blocks + [0] * (num_blocks - len(sequence.blocks)) for sequence in decodes])
        lengths = torch.tensor([[len(sequence.tokens)] for sequence in decodes])
        beyond = torch.arange(num_blocks * size) >= lengths
        mask = torch.zeros(beyond.shape, dtype=self._dtype).masked_fill_(beyond, float("-inf"))
        return DecodePart(len(decodes), tables, mask[:, None, None, :])

    def _prefill_parts(self, prefills: Seq[Chunk], row: int) -> tuple[PrefillPart, ...]:
        parts: list[PrefillPart] = []
        for chunk in prefills:
            num_blocks = -(-(chunk.start + chunk.num_tokens) // self._block_size)
            table = torch.tensor([chunk.sequence.blocks[:num_blocks]]) if chunk.start else None
            parts.append(PrefillPart(row, row + chunk.num_tokens, chunk.start, table))
            row += chunk.num_tokens
        return tuple(parts)

    def _lora(self, chunks: Seq[Chunk]) -> tuple[LoraTerm, ...]:
        blocks: list[Block] = []
        row = 0
        for chunk in chunks:
            if chunk.sequence.engine_name is not None:
                blocks.append(Block(chunk.sequence.engine_name, row, chunk.num_tokens))
            row += chunk.num_tokens
        return tuple(self._terms.of(blocks))
