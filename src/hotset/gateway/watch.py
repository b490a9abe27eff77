"""Ends a request's task from outside: its client left, its time is up, or its access was withdrawn.

A young request has one timer and nobody listening: most are over before it fires. After that a task waits for
the client's departure. An interruption cancels the request's own task, which then finds the reason here; the
first reason stands.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hotset.core.errors import EngineTimeoutError, HotsetError, RequestTimeoutError
from hotset.gateway.settings import GatewaySettings

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGoneError(Exception):
    """The client went away. Outside the error tree: nobody is left to be told."""


class Watch:
    """Watches over one request; made on the request's own task, which must `close` it."""

    __slots__ = ("_closed", "_first_token", "_listener", "_loop", "_receive", "_settings", "_task", "_timer", "reason")

    def __init__(self, receive: Receive, settings: GatewaySettings) -> None:
        self._receive = receive
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._first_token: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None
        self._closed = False
        #: Why the task was interrupted; None while it was not.
        self.reason: HotsetError | ClientGoneError | None = None

    def await_body(self) -> None:
        """Bound the time in which the body must arrive."""
        self._set_timer(self._settings.body_timeout_s, self._body_is_late)

    def body_arrived(self) -> None:
        """From now on, bound the time of the answer, and soon listen for the client's departure."""
        self._set_timer(self._settings.listen_after_s, self._listen)

    def await_first_token(self, seconds: float, error: HotsetError) -> None:
        """Interrupt for this reason unless the first token comes in time."""
        self._first_token = self._loop.call_later(max(0.0, seconds), self.interrupt, error)

    def first_token_came(self) -> None:
        """From now on, no budget is watched."""
        if self._first_token is not None:
            self._first_token.cancel()

    def interrupt(self, reason: HotsetError | ClientGoneError) -> None:
        """Cancel the request's task for this reason, unless it was interrupted or has ended."""
        if self._closed or self.reason is not None:
            return
        assert self._task is not None
        self.reason = reason
        self._task.cancel()

    def taken_back(self) -> bool:
        """Whether a cancellation just caught was this watch's; if so, the task may go on awaiting."""
        if self.reason is None:
            return False
        assert self._task is not None
        self._task.uncancel()
        return True

    def close(self) -> None:
        """Stop watching; nothing of it is left afterwards."""
        self._closed = True
        self.first_token_came()
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)

    def _body_is_late(self) -> None:
        self.interrupt(RequestTimeoutError())

    def _listen(self) -> None:
        rest_s = self._settings.request_timeout_s - self._settings.listen_after_s
        self._set_timer(rest_s, self._answer_is_late)
        self._listener = self._loop.create_task(self._wait_for_departure())

    def _answer_is_late(self) -> None:
        self.interrupt(EngineTimeoutError())

    async def _wait_for_departure(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.interrupt(ClientGoneError())
