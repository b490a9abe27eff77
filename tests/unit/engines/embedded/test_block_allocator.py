"""Blocks are given out once, erased before they are given out again, and never lost."""

from collections.abc import Sequence

import pytest

from hotset.engines.embedded.block_allocator import BlockAllocator


class Erasures:
    def __init__(self) -> None:
        self.blocks: list[int] = []

    def __call__(self, blocks: Sequence[int]) -> None:
        self.blocks += blocks


def test_block_zero_is_never_given_out() -> None:
    allocator = BlockAllocator(5, Erasures())
    assert allocator.num_total == 4
    assert sorted(allocator.allocate(4)) == [1, 2, 3, 4]
    assert allocator.num_free == 0


def test_freed_blocks_are_erased_and_come_back() -> None:
    erasures = Erasures()
    allocator = BlockAllocator(5, erasures)
    blocks = allocator.allocate(3)
    allocator.free(blocks[:2])
    assert erasures.blocks == blocks[:2]
    assert allocator.num_used == 1
    assert allocator.num_free == 3
    allocator.check(blocks[2:])
    assert set(allocator.allocate(3)) == {1, 2, 3, 4} - set(blocks[2:])


def test_freeing_nothing_erases_nothing() -> None:
    erasures = Erasures()
    BlockAllocator(5, erasures).free([])
    assert erasures.blocks == []


def test_freeing_twice_is_an_invariant_break() -> None:
    allocator = BlockAllocator(5, Erasures())
    blocks = allocator.allocate(1)
    allocator.free(blocks)
    with pytest.raises(AssertionError, match="freed twice"):
        allocator.free(blocks)


def test_taking_more_than_there_is_is_an_invariant_break() -> None:
    with pytest.raises(AssertionError):
        BlockAllocator(5, Erasures()).allocate(5)


@pytest.mark.parametrize("held", [[1, 1], [1], [2, 3]])
def test_check_sees_disagreement(held: list[int]) -> None:
    allocator = BlockAllocator(5, Erasures())
    allocator.allocate(2)
    with pytest.raises(AssertionError):
        allocator.check(held)
