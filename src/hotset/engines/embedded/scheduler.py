"""Who advances in the next step. Pure: no tensors, no clock.

Every running sequence that lacks one token decodes; what is left of the step's token budget goes to prompts, in
order of arrival, in pieces. A sequence is admitted when its whole prompt has blocks and every running one could
still grow by a block. When a decode finds no block, the sequence admitted last gives up its blocks and is computed
again later, so the oldest always gets on; `tokens_max` of a sequence never exceeds the cache, so it can end.

Invariant (`check`): a waiting sequence holds no block; a running one holds enough for what it has computed.
Source: iteration-level scheduling, Orca (OSDI 2022); chunked prefill, Sarathi (arXiv 2308.16369).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from hotset.core.ids import EngineName, RequestId
from hotset.engines.embedded.block_allocator import BlockAllocator
from hotset.engines.step_engine import StepShape


@dataclass(slots=True, eq=False)
class Sequence:
    """One prompt with the answer so far."""

    request_id: RequestId
    #: The choice's index in its request.
    index: int
    engine_name: EngineName | None
    #: Prompt, then answer.
    tokens: list[int]
    prompt_len: int
    #: Tokens whose keys and values are in the cache.
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def num_pending(self) -> int:
        """Tokens still to be computed before the next one can be sampled."""
        return len(self.tokens) - self.num_computed


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of one sequence's tokens that a step computes."""

    sequence: Sequence
    start: int
    num_tokens: int

    @property
    def is_last(self) -> bool:
        """Whether the next token can be sampled after this chunk."""
        return self.start + self.num_tokens == len(self.sequence.tokens)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step computes."""

    #: Sequences that lack exactly one token.
    decodes: list[Sequence]
    prefills: list[Chunk]

    @property
    def shape(self) -> StepShape:
        """How much it computes."""
        names = {sequence.engine_name for sequence in self.decodes}
        names |= {chunk.sequence.engine_name for chunk in self.prefills}
        return StepShape(len(self.decodes), sum(chunk.num_tokens for chunk in self.prefills), len(names - {None}))


class Scheduler:
    """The waiting and the running sequences, and the plan of the next step."""

    def __init__(
        self, allocator: BlockAllocator, *, block_size: int, step_tokens_max: int, num_sequences_max: int
    ) -> None:
        self._allocator = allocator
        self._block_size = block_size
        self._step_tokens_max = step_tokens_max
        self._num_sequences_max = num_sequences_max
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def num_waiting(self) -> int:
        """Sequences that hold no blocks yet."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Sequences that hold blocks."""
        return len(self._running)

    def add(self, sequences: Iterable[Sequence]) -> None:
        """Queue sequences, in order."""
        self._waiting.extend(sequences)

    def remove(self, request_id: RequestId) -> None:
        """Drop every sequence of a request and free its blocks."""
        for sequence in [kept for kept in self._running if kept.request_id == request_id]:
            self.finish(sequence)
        self._waiting = deque(kept for kept in self._waiting if kept.request_id != request_id)

    def finish(self, sequence: Sequence) -> None:
        """Drop a running sequence and free its blocks."""
        self._running.remove(sequence)
        self._release(sequence)

    def plan_step(self) -> StepPlan:
        """Choose what the next step computes, giving it the blocks it writes to."""
        decodes, preempted = self._plan_decodes()
        budget = self._step_tokens_max - len(decodes)
        prefills: list[Chunk] = []
        for sequence in self._running:
            if budget > 0 and sequence.num_pending > 1:
                prefills.append(self._chunk(sequence, budget))
                budget -= prefills[-1].num_tokens
        while budget > 0 and not preempted and self._waiting and self._can_admit(self._waiting[0]):
            sequence = self._waiting.popleft()
            sequence.blocks = self._allocator.allocate(self._blocks_for(len(sequence.tokens)))
            self._running.append(sequence)
            prefills.append(self._chunk(sequence, budget))
            budget -= prefills[-1].num_tokens
        return StepPlan(decodes, prefills)

    def advance(self, plan: StepPlan) -> None:
        """Note that the plan was computed."""
        for sequence in plan.decodes:
            sequence.num_computed += 1
        for chunk in plan.prefills:
            chunk.sequence.num_computed += chunk.num_tokens

    def check(self) -> None:
        """Assert the invariant, and the allocator's."""
        assert all(not sequence.blocks and not sequence.num_computed for sequence in self._waiting)
        for sequence in self._running:
            assert 0 <= sequence.num_computed <= len(sequence.tokens)
            assert len(sequence.blocks) * self._block_size >= sequence.num_computed
        self._allocator.check([block for sequence in self._running for block in sequence.blocks])

    def _plan_decodes(self) -> tuple[list[Sequence], bool]:
        decodes: list[Sequence] = []
        num_before = len(self._running)
        position = 0
        while position < len(self._running):
            sequence = self._running[position]
            if sequence.num_pending == 1 and self._grow(sequence):
                decodes.append(sequence)
            position += 1
        return decodes, len(self._running) < num_before

    def _grow(self, sequence: Sequence) -> bool:
        missing = self._blocks_for(len(sequence.tokens)) - len(sequence.blocks)
        while missing > self._allocator.num_free:
            victim = self._running.pop()
            self._release(victim)
            self._waiting.appendleft(victim)
            if victim is sequence:
                return False
        sequence.blocks += self._allocator.allocate(max(missing, 0))
        return True

    def _can_admit(self, sequence: Sequence) -> bool:
        if len(self._running) >= self._num_sequences_max:
            return False
        needed = self._blocks_for(len(sequence.tokens))
        return needed + len(self._running) <= self._allocator.num_free

    def _chunk(self, sequence: Sequence, budget: int) -> Chunk:
        return Chunk(sequence, sequence.num_computed, min(sequence.num_pending, budget))

    def _release(self, sequence: Sequence) -> None:
        self._allocator.free(sequence.blocks)
        sequence.blocks = []
        sequence.num_computed = 0

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)
