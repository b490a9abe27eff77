"""Bodies as they arrive: late, broken off, in crumbs."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
from starlette.requests import Request

from hotset.control.bodies import Nothing, TenantBody
from hotset.control.endpoints import body_chunks, in_pieces, read_body
from hotset.core.errors import InvalidRequestError, RequestTimeoutError, RequestTooLargeError

Event = MutableMapping[str, Any]


def request(*events: Event) -> Request:
    """Return a request whose body arrives as these events, and then no more."""
    waiting = list(events)

    async def receive() -> Event:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)


def part(content: bytes, *, more: bool = False) -> Event:
    return {"type": "http.request", "body": content, "more_body": more}


async def collect(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]


def test_a_body_that_stops_arriving_is_given_up() -> None:
    with pytest.raises(RequestTimeoutError):
        asyncio.run(collect(body_chunks(request(part(b"{", more=True)), timeout_s=0.001)))


def test_a_body_that_breaks_off_is_no_body() -> None:
    with pytest.raises(InvalidRequestError, match="ended too early"):
        asyncio.run(collect(body_chunks(request(part(b"{", more=True), {"type": "http.disconnect"}))))


def test_crumbs_are_joined_and_nothing_is_lost() -> None:
    events = [part(bytes([index]) * 3, more=index < 9) for index in range(10)]
    pieces = asyncio.run(collect(in_pieces(body_chunks(request(*events)), 10)))
    assert [len(piece) for piece in pieces] == [12, 12, 6]
    assert b"".join(pieces) == b"".join(bytes([index]) * 3 for index in range(10))


def test_an_empty_body_is_an_empty_object() -> None:
    assert asyncio.run(read_body(request(part(b"")), Nothing)) == Nothing()
    with pytest.raises(InvalidRequestError, match="tenant: Field required"):
        asyncio.run(read_body(request(part(b"")), TenantBody))


@pytest.mark.parametrize("content", [b'{"tenant": 1}', b'{"tenant": "a", "tenant2": "b"}', b"null", b"\xff", b"{"])
def test_what_is_no_such_body(content: bytes) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        asyncio.run(read_body(request(part(content)), TenantBody))
    assert caught.value.param


def test_a_json_body_is_bounded() -> None:
    events = [part(b" " * (1 << 19), more=True) for _ in range(3)]
    with pytest.raises(RequestTooLargeError):
        asyncio.run(read_body(request(*events), Nothing))
