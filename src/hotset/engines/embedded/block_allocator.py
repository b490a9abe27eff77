"""Which blocks of the KV cache are free and who holds the others. Pure: the bytes live in `kv_cache`.

Block 0 is never given out: it stays zero and fills the unused tail of block tables.
Invariant: free and held blocks are disjoint and together are all blocks but 0.
"""

from collections.abc import Callable, Sequence


class BlockAllocator:
    """Gives out block numbers, lowest first, and has blocks erased before anyone else may get them.

    Args:
        num_blocks: Blocks in the cache, block 0 included.
        erase: Called with the blocks that were just freed, before they can be given out again.
    """

    def __init__(self, num_blocks: int, erase: Callable[[Sequence[int]], None]) -> None:
        self._num_blocks = num_blocks
        self._erase = erase
        self._free = list(range(num_blocks - 1, 0, -1))
        self._held: set[int] = set()

    @property
    def num_total(self) -> int:
        """Blocks that can be given out."""
        return self._num_blocks - 1

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks that sequences hold."""
        return len(self._held)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks, which must be free."""
        assert 0 <= count <= len(self._free), "the caller checks num_free first"
        blocks = [self._free.pop() for _ in range(count)]
        self._held.update(blocks)
        return blocks

    def free(self, blocks: Sequence[int]) -> None:
        """Erase and take back blocks that were given out."""
        if not blocks:
            return
        assert self._held.issuperset(blocks), "a block was freed twice"
        self._erase(blocks)
        self._held.difference_update(blocks)
        self._free.extend(reversed(blocks))

    def check(self, held: Sequence[int]) -> None:
        """Assert the invariant, given every block that sequences say they hold."""
        assert len(set(held)) == len(held), "two sequences hold one block"
        assert set(held) == self._held, "held blocks and sequences disagree"
        assert 0 not in self._held
        assert sorted([*self._free, *self._held]) == list(range(1, self._num_blocks)), "blocks were lost"
