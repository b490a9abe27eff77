"""The Engine port: what an agent may ask of any engine, and nothing more.

`HostedEngine` (an engine process of ours: embedded PyTorch, or one without a model for benchmarks and load tests) and
`ServedEngine` (an engine that serves HTTP) implement it. Each passes `tests/contract/test_engine_contract.py`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    EngineEvent,
    EngineFacts,
    Generate,
    Inventory,
    LoadReport,
    Score,
    StepFacts,
)


class EngineStream(Protocol):
    """The events of one request, in order."""

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; an empty list after the last one.

        If the engine dies, the last event is a `Failed` with code ``engine_failed``.
        """
        ...

    def watch(self, watcher: Callable[[Sequence[EngineEvent]], None]) -> None:
        """Tell a watcher the events as they come, read or not, and at once those that came and were not read.

        It is called once a token, or for several that came at once, so it must do little. There is one watcher; after
        an abort it is told nothing more.
        """
        ...

    async def abort(self) -> None:
        """End the request; returns once the engine confirmed that it no longer runs. Harmless after the end."""
        ...


class Engine(Protocol):
    """One engine, serving one base version and a bounded number of adapters."""

    async def start(self) -> EngineFacts:
        """Start and return once it serves.

        Raises:
            EngineUnavailableError: it did not come up; the message holds the engine's own last words.
        """
        ...

    async def load(self, load: AdapterLoad) -> LoadReport:
        """Put a version into a free slot. Loading what is loaded is a no-op.

        Raises:
            LoadFailedError: no free slot, bytes other than `load.files` says, or tensors it can't place;
                nothing is left behind and running requests are untouched.
            EngineUnavailableError: the engine is gone.
        """
        ...

    async def unload(self, name: EngineName) -> None:
        """Free the version's slot, truly: after return its bytes are gone. Unloading what is not there is a no-op.

        Raises:
            LoadFailedError: a running request still uses the version.
            EngineUnavailableError: the engine is gone.
        """
        ...

    async def inventory(self) -> Inventory:
        """Return what is loaded and running, by the engine's own account.

        Raises:
            EngineUnavailableError: the engine is gone.
        """
        ...

    def generate(self, request: Generate) -> EngineStream:
        """Start a request. A name that is not loaded ends it with a `Failed`; it never falls back to the base."""
        ...

    def watch_steps(self, watcher: Callable[[StepFacts], None]) -> None:
        """Tell a watcher what each step computed, where the engine says so; it must do little."""
        ...

    async def abort(self, request_id: RequestId) -> None:
        """End a request; returns once the engine confirmed it. Harmless for an unknown one."""
        ...

    async def score(self, score: Score) -> list[list[float]]:
        """Return, for each text, the natural-log probability of each token after its first.

        Raises:
            LoadFailedError: the name is not loaded.
            EngineUnavailableError: the engine is gone.
        """
        ...

    async def stop(self) -> None:
        """End the engine's process; running requests end with `Failed`."""
        ...

    async def wait_gone(self) -> str:
        """Return once the engine is gone, whoever ended it, with its last words."""
        ...
