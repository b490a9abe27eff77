"""The order of an interleaved run: blocks A B C A B C, so that a change of the machine hits all alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hotset.bench.stats import Spread, ratio, spread

Outcome = TypeVar("Outcome")

#: The round before those that count: everything's first time, what was never loaded, never asked, never compiled.
UNCOUNTED = -1


@dataclass(frozen=True, slots=True)
class Block:
    """One measurement: this side under this load, in this round."""

    round: int
    load: str
    side: str


def interleave(sides: Sequence[str], loads: Sequence[str], rounds: int) -> Iterator[Block]:
    """Yield the blocks of a run: within each round and load, every side once, in the same order."""
    for number in range(rounds):
        for load in loads:
            for side in sides:
                yield Block(number, load, side)


@dataclass(slots=True)
class Outcomes(Generic[Outcome]):
    """What the blocks of a run gave, by (side, load) and round."""

    by_block: dict[Block, Outcome] = field(default_factory=dict[Block, Outcome])

    def add(self, block: Block, outcome: Outcome) -> None:
        """Keep one block's outcome.

        Raises:
            ValueError: the block has one already.
        """
        if block in self.by_block:
            raise ValueError(f"{block} was measured twice")
        self.by_block[block] = outcome

    def rounds(self, side: str, load: str) -> Mapping[int, Outcome]:
        """Return one side's outcomes under one load, by round."""
        return {b.round: outcome for b, outcome in self.by_block.items() if (b.side, b.load) == (side, load)}


def over_rounds(values: Mapping[int, float]) -> Spread | None:
    """Return the spread of one value a round."""
    return spread(values[number] for number in sorted(values))


def ratio_over_rounds(over: Mapping[int, float], under: Mapping[int, float]) -> Spread | None:
    """Return the spread of the ratios of the rounds that both sides have; None where there are none."""
    shared: Iterable[int] = [number for number in sorted(over) if under.get(number)]
    return ratio([over[number] for number in shared], [under[number] for number in shared])
