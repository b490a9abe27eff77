"""What the scenarios do alike: run once in a folder of their own, and ask one engine under two policies."""

import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from hotset.bench.asking import AgentAsker
from hotset.bench.procfs import machine_words
from hotset.bench.workers import EVERYBODY, EngineChoice, Workers
from hotset.core.clock import Clock
from hotset.core.ids import TenantId
from hotset.core.quotas import Quota

_Result = TypeVar("_Result")


def run_scenario(
    engine: EngineChoice, measure: Callable[[Workers, Clock], Coroutine[Any, Any, _Result]]
) -> tuple[str, _Result]:
    """Run a scenario in the engine's time; its files are gone afterwards.

    Args:
        engine: Of its workers.
        measure: Publishes and asks.

    Returns:
        The machine in words, as it was before, and what was measured.

    Raises:
        EngineUnavailableError: an engine did not come up.
        VersionRefusedError: the base is not one that is served.
    """
    machine = machine_words()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as folder:
        return machine, engine.run(lambda clock: measure(Workers(Path(folder), engine, clock), clock))


@asynccontextmanager
async def beside_lru(
    workers: Workers, clock: Clock, quotas: Mapping[TenantId, Quota], num_slots: int
) -> AsyncIterator[tuple[AgentAsker, AgentAsker]]:
    """Start the engine under these quotas and, beside it, with plain LRU for all alike; give who asks each."""
    vocab_size = workers.base.shape.vocab_size
    everybody = {EVERYBODY: Quota(limit_slots=num_slots)}
    async with (
        workers.agent("hotset", quotas, num_slots=num_slots) as hotset,
        workers.agent("lru", everybody, num_slots=num_slots, is_lru=True) as lru,
    ):
        yield AgentAsker(hotset.agent, clock, vocab_size), AgentAsker(lru.agent, clock, vocab_size, account=EVERYBODY)
