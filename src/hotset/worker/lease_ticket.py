"""A request's ticket: the lease at residency and the stream at the engine, ended together."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from hotset.core.errors import HotsetError
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Started
from hotset.core.ports import Lane
from hotset.engines.port import EngineStream


class LeaseAccount(Protocol):
    """Hears what becomes of a lease."""

    def served(self, request: RequestId, *, input_tokens: int | None = None, output_tokens: int = 0) -> None:
        """The engine read a prompt of that length, or generated tokens since the last call, or both."""
        ...

    def first_token(self, request: RequestId) -> None:
        """The first token came."""
        ...

    def release(self, request: RequestId) -> None:
        """The lease ended; called again harmlessly."""
        ...


class LeaseTicket:
    """Implements `core.ports.Ticket`. The lease ends with the engine's last event or its confirmed abort.

    What the engine does is counted as it does it, not as it is read: a client that reads slowly, or never, would
    else keep its slot and its place in the engine long after the engine is done with it.
    """

    def __init__(
        self, stream: EngineStream, request: RequestId, account: LeaseAccount, *, lane: Lane, load_seconds: float
    ) -> None:
        self._stream = stream
        self._request = request
        self._account = account
        self._has_begun = False
        #: Whether the engine said its last word.
        self.has_ended = False
        #: What the reader is told in the engine's place once it was cut.
        self._cut: Failed | None = None
        self._is_told = False
        #: Who waits for events now.
        self._reader: asyncio.Task[object] | None = None
        self.lane: Lane = lane
        self.load_seconds = load_seconds
        self.worker = ""
        stream.watch(self._count)

    async def events(self) -> list[EngineEvent]:
        """Return the events that are ready, waiting for the first; an empty list after the last one."""
        if self._cut is None:
            self._reader = asyncio.current_task()
            try:
                return await self._stream.events()
            except asyncio.CancelledError:
                # Woken by `cut` alone; whoever else wants the reader gone still gets what it wants.
                if self._cut is None or self._reader is None or self._reader.uncancel():
                    raise
            finally:
                self._reader = None
        last: list[EngineEvent] = [] if self._is_told else [self._cut]
        self._is_told = True
        return last

    async def cut(self, error: HotsetError) -> None:
        """End the request in the engine; its reader hears of the error in place of the engine's last event."""
        if self.has_ended or self._cut is not None:
            return
        self._cut = Failed(self._request, error.code, error.message)
        if self._reader is not None:
            self._reader.cancel()
        await self.abort()

    def _count(self, events: Sequence[EngineEvent]) -> None:
        """Charge the tenant for what the engine did, and end the lease with its last word."""
        input_tokens, output_tokens = None, 0
        for event in events:
            if isinstance(event, Delta):
                output_tokens += event.num_tokens
            elif isinstance(event, Started):
                input_tokens = event.prompt_tokens
            else:
                self.has_ended = True
        if input_tokens is not None or output_tokens:
            self._account.served(self._request, input_tokens=input_tokens, output_tokens=output_tokens)
        if output_tokens and not self._has_begun:
            self._has_begun = True
            self._account.first_token(self._request)
        if self.has_ended:
            self._account.release(self._request)

    async def abort(self) -> None:
        """End the request in the engine and release the lease; harmless after the end."""
        try:
            await self._stream.abort()
        finally:
            # Also where the wait was cancelled: the engine has the abort in its queue, before any unload.
            self._account.release(self._request)
