"""Runs the tenant plane under uvicorn (uvloop, httptools), with the bounds that uvicorn leaves open.

uvicorn bounds neither the time nor the size of a request's head, nor how long a client may trickle a body that
nobody reads any more. Both are bounded here, at no cost for a head that arrives in one piece.
"""

import asyncio
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hotset.core.errors import InvalidRequestError
from hotset.gateway.app import RandomRequestIds, TenantApp
from hotset.gateway.joined_writes import JoinedWrites
from hotset.gateway.problems import answer_of, problem_of
from hotset.gateway.settings import GatewaySettings
from hotset.telemetry.logs import WEB_SERVER_LEVEL


def server_config(app: TenantApp, settings: GatewaySettings, *, host: str, port: int) -> uvicorn.Config:
    """Return how uvicorn is to serve the tenant plane.

    Args:
        app: What `build_tenant_app` made.
        settings: The same as the app's.
        host: Address to listen on.
        port: 0 lets the system choose one.
    """
    return uvicorn.Config(
        cast("Any", app),
        host=host,
        port=port,
        loop="uvloop",
        http=bounded_protocol(settings),
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level=WEB_SERVER_LEVEL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(settings.idle_connection_s),
        timeout_graceful_shutdown=10,
        backlog=4096,
    )


def bounded_protocol(settings: GatewaySettings) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with this plane's bounds."""

    class BoundedProtocol(_BoundedProtocol):
        settings_in_use = settings

    return BoundedProtocol


class _BoundedProtocol(HttpToolsProtocol):
    """One connection. It owes a head from its start, from its request's first byte, and after an early answer."""

    settings_in_use = GatewaySettings()
    _new_request_id = RandomRequestIds()

    _joined: JoinedWrites
    #: Whether a head has begun and not ended.
    _is_in_head = True
    #: Whether the current request's body has not ended.
    _is_in_body = False
    _head_bytes = 0
    _debt: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        self._joined = JoinedWrites(transport)
        super().connection_made(self._joined)
        if len(self.connections) > self.settings_in_use.connections_max:
            transport.abort()
            return
        self._start_debt()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end_debt()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, then see what is still owed."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.settings_in_use.head_bytes_max:
                self.send_400_response("The request's head is too large.")
            elif self._debt is None:
                self._start_debt()
        elif self._is_in_body and self._debt is None and self.cycle.response_complete:
            self._start_debt()

    def on_message_begin(self) -> None:
        """A request's first byte was parsed."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's head was parsed."""
        self._is_in_head, self._is_in_body = False, True
        if self._debt is not None:
            self._end_debt()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request's body was parsed."""
        self._is_in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A response was handed over; its head may still wait for a body that it has not (HEAD)."""
        self._joined.flush()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in the shape of every other error, and close."""
        if self.transport.is_closing():
            return
        error = InvalidRequestError(msg)
        status, headers, body = answer_of(error, problem_of(error, self._new_request_id()))
        lines = [b"HTTP/1.1 %d Bad Request" % status]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()

    def _start_debt(self) -> None:
        self._debt = self.loop.call_later(self.settings_in_use.head_timeout_s, self._collect_debt)

    def _end_debt(self) -> None:
        if self._debt is not None:
            self._debt.cancel()
            self._debt = None

    def _collect_debt(self) -> None:
        self._debt = None
        if not self.transport.is_closing():
            self.transport.close()
