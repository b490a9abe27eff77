"""An engine's stream that a test speaks for, and an account of the leases that end."""

import asyncio
from collections.abc import Callable, Sequence

from hotset.core.ids import RequestId
from hotset.core.messages import EngineEvent


class SilentStream:
    """An engine's stream that says nothing until it is told to."""

    def __init__(self) -> None:
        self.ready: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self.num_aborts = 0
        self._watcher: Callable[[Sequence[EngineEvent]], None] = lambda _: None

    async def events(self) -> list[EngineEvent]:
        return [await self.ready.get()]

    def watch(self, watcher: Callable[[Sequence[EngineEvent]], None]) -> None:
        self._watcher = watcher

    def say(self, event: EngineEvent) -> None:
        self.ready.put_nowait(event)
        self._watcher([event])

    async def abort(self) -> None:
        self.num_aborts += 1


class Account:
    """Keeps what it hears, and counts the ends of a lease."""

    def __init__(self) -> None:
        self.num_released = 0
        #: What was charged, and when the first token came.
        self.heard: list[tuple[int | None, int] | str] = []

    def served(self, request: RequestId, *, input_tokens: int | None = None, output_tokens: int = 0) -> None:
        self.heard.append((input_tokens, output_tokens))

    def first_token(self, request: RequestId) -> None:
        self.heard.append("first token")

    def release(self, request: RequestId) -> None:
        self.num_released += 1
