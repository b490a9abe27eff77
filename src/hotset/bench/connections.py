"""Connections of a bench's clients to the gateways of a fleet that runs."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import httpx

from hotset.core.errors import InvalidRequestError

#: Far above what a network takes: a thousand that connect at once keep the client itself busy for seconds.
_CONNECT_TIMEOUT_S = 30.0
#: Shorter than servers keep idle connections: one that closes as a request is sent looks like a gateway that is gone.
_KEEPALIVE_S = 2.0


class Connections:
    """HTTP clients of one request at a time each, the last one used first.

    A client's own pool looks through all of its connections at each request's start and end: a crowd that asks at once
    would wait for that, and its waiting would be taken for the fleet's.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._idle: list[httpx.AsyncClient] = []

    @contextmanager
    def one(self) -> Iterator[httpx.AsyncClient]:
        """Give a client that nobody else uses meanwhile."""
        http = self._idle.pop() if self._idle else self._make()
        try:
            yield http
        finally:
            self._idle.append(http)

    async def close(self) -> None:
        """Close all; none may be in use."""
        while self._idle:
            await self._idle.pop().aclose()


def http_client_maker() -> Callable[[], httpx.AsyncClient]:
    """Return what makes clients that wait for an answer as long as it takes, and trust what the system trusts."""
    limits = httpx.Limits(keepalive_expiry=_KEEPALIVE_S)
    timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S)  # whoever runs a block ends what it waits for
    tls = ssl.create_default_context()
    return partial(httpx.AsyncClient, limits=limits, timeout=timeout, verify=tls, trust_env=False)


def check_addresses(gateways: Sequence[str]) -> None:
    """Check that these may be addresses of tenant planes.

    Raises:
        InvalidRequestError: one is no address, or says more than where.
    """
    for gateway in gateways:
        try:
            url = httpx.URL(gateway)
        except httpx.InvalidURL as error:
            raise InvalidRequestError(f"{gateway!r} is not an address: {error}.", param="gateway") from error
        if url.scheme not in ("http", "https") or not url.host or url.query or url.userinfo:
            raise InvalidRequestError(f"{gateway!r} is not an address such as http://10.0.0.5:8080.", param="gateway")
