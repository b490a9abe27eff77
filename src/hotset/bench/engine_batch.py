"""One batch of the engine bench, the same for every side, and the lines that a side's process speaks.

A side reads a `SideSetup` line, answers `SideReady`, then answers each `Batch` line with a `BatchTime`. A
batch is `len(prompts)` requests started together, each generating exactly `new_tokens` greedy tokens past
any end of text.
"""

import random
import sys
from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal["base", "one", "distinct"]
KINDS: tuple[Kind, ...] = ("base", "one", "distinct")


class SideAdapter(msgspec.Struct, frozen=True):
    """An adapter that a side loads before anything is measured."""

    name: str
    folder: str


class SideSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What every side serves."""

    base_folder: str
    adapters: tuple[SideAdapter, ...]
    rank_max: int
    num_sequences_max: int
    num_threads: int


class SideReady(msgspec.Struct, frozen=True, kw_only=True):
    """A side is up."""

    #: The program and its version.
    version: str


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Requests started together; row i asks `adapters[i]`, None for the bare base."""

    prompts: tuple[tuple[int, ...], ...]
    adapters: tuple[str | None, ...]
    new_tokens: int


class BatchTime(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch went."""

    #: From the first request's start to the last one's last token.
    seconds: float
    #: Tokens generated, over all rows.
    num_tokens: int

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens a second, prefill included."""
        return self.num_tokens / self.seconds


def make_batch(
    kind: Kind, size: int, adapters: tuple[str, ...], *, vocab_size: int, prompt_tokens: int, new_tokens: int, seed: int
) -> Batch:
    """Return the batch that every side of one round and load is given.

    Args:
        kind: All rows the base, all rows the first adapter, or every row another adapter.
        size: Rows.
        adapters: Names of at least `size` adapters.
        vocab_size: Prompts are random ids below it; the lowest hundred are left out as often special.
        prompt_tokens: Tokens of each prompt.
        new_tokens: Tokens generated a row.
        seed: The same seed gives the same prompts.
    """
    rng = random.Random(seed)  # noqa: S311 - prompts, not secrets
    prompts = tuple(tuple(rng.choices(range(100, vocab_size), k=prompt_tokens)) for _ in range(size))
    rows: dict[Kind, tuple[str | None, ...]] = {
        "base": (None,) * size,
        "one": (adapters[0],) * size,
        "distinct": adapters[:size],
    }
    assert len(rows[kind]) == size
    return Batch(prompts=prompts, adapters=rows[kind], new_tokens=new_tokens)


def speak(start: Callable[[SideSetup], tuple[SideReady, Callable[[Batch], BatchTime]]]) -> int:
    """Run a side's process over standard input and output until the input ends."""
    setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=SideSetup)
    ready, answer = start(setup)
    _write(ready)
    while line := sys.stdin.buffer.readline():
        _write(answer(msgspec.json.decode(line, type=Batch)))
    return 0


def _write(message: SideReady | BatchTime) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()
