"""Bodies, heads, connections and requests in flight are bounded, and each bound has its own answer."""

import asyncio
import contextlib
import json
import logging
from pathlib import Path

import pytest
import uvloop

from hotset.gateway.settings import GatewaySettings
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import (
    ask,
    chat_request,
    close,
    connect,
    eventually,
    raw_request,
    read_answer,
    read_head,
)
from tests.support.snapshots import token_of

TOKEN = token_of("acme")
CHUNKED = {"transfer-encoding": "chunked", "content-length": ""}


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def body_of(prompt: str) -> bytes:
    return json.dumps({"model": "support", "messages": [{"role": "user", "content": prompt}]}).encode()


def test_a_body_in_chunks_is_put_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(raw_request(b"", token=TOKEN, headers=CHUNKED))
            body = body_of("pieces=2 é")
            for place in range(0, len(body), 7):
                writer.write(chunk(body[place : place + 7]))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
            assert (await read_answer(reader)).status == 200
            await close(writer)

    uvloop.run(story())


@pytest.mark.parametrize("factor", [1.5, 3, 1000])
def test_a_body_that_says_it_is_too_large_is_a_413(tmp_path: Path, factor: float) -> None:
    settings = GatewaySettings(body_bytes_max=10_000)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            assert (await ask(world.port, raw_request(body_of("x" * 9_900), token=TOKEN))).status == 200
            reader, writer = await connect(world.port)
            size = int(10_000 * factor)
            head = raw_request(b"", token=TOKEN, headers={"content-length": str(size)})
            writer.write(head + b" " * min(size, 50_000))
            answer = await read_answer(reader)
            assert (answer.status, answer.code, answer.headers["connection"]) == (413, "request_too_large", "close")
            assert await reader.read() == b""
            await close(writer)
            assert world.entries()[0].outcome == "refused"

    uvloop.run(story())


def test_a_chunked_body_that_grows_too_large_is_a_413(tmp_path: Path) -> None:
    settings = GatewaySettings(body_bytes_max=10_000)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            for pieces in (20, 200):
                reader, writer = await connect(world.port)
                writer.write(raw_request(b"", token=TOKEN, headers=CHUNKED))
                writer.write(chunk(b" " * 1000) * pieces + b"0\r\n\r\n")
                assert (await read_answer(reader)).code == "request_too_large"
                await close(writer)
            assert world.app._plane.bodies.num_bytes_held == 0

    uvloop.run(story())


def test_a_slow_body_is_a_408(tmp_path: Path) -> None:
    settings = GatewaySettings(body_timeout_s=0.2)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            for sent in (0, 10):
                reader, writer = await connect(world.port)
                request = raw_request(body_of("hi"), token=TOKEN)
                head_size = request.index(b"\r\n\r\n") + 4
                writer.write(request[: head_size + sent])
                answer = await read_answer(reader)
                assert (answer.status, answer.code) == (408, "request_timeout")
                await close(writer)
                await eventually(lambda: world.app.num_in_flight == 0)
            assert world.app._plane.bodies.num_bytes_held == 0

    uvloop.run(story())


def test_unfinished_bodies_are_bounded_over_all_requests(tmp_path: Path) -> None:
    settings = GatewaySettings(body_bytes_max=1 << 20, body_bytes_in_flight_max=1 << 20)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            writers = []
            for _ in range(2):
                _, writer = await connect(world.port)
                writer.write(raw_request(b" " * 450_000, token=TOKEN, headers={"content-length": "1000000"}))
                writers.append(writer)
            await eventually(lambda: world.app._plane.bodies.num_bytes_held == 900_000)
            reader, writer = await connect(world.port)
            writer.write(raw_request(b" " * 450_000, token=TOKEN, headers={"content-length": "1000000"}))
            answer = await read_answer(reader)
            assert (answer.status, answer.code) == (429, "too_many_requests")
            for each in (*writers, writer):
                await close(each)
            await eventually(lambda: world.app.num_in_flight == 0)
            assert world.app._plane.bodies.num_bytes_held == 0

    uvloop.run(story())


def test_requests_in_flight_are_bounded_for_a_tenant_and_for_all(tmp_path: Path) -> None:
    settings = GatewaySettings(in_flight_max=3, in_flight_per_tenant_max=2, retry_after_ms=1500)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            held = [asyncio.create_task(ask(world.port, chat_request("hold"))) for _ in range(2)]
            await eventually(lambda: world.agent.num_held == 2)
            refused = await ask(world.port, chat_request("hi"))
            assert (refused.status, refused.code) == (429, "too_many_requests")
            assert (refused.headers["retry-after"], refused.json()["retry_after_ms"]) == ("2", 1500)
            other = chat_request("hold", tenant="globex", model="contracts")
            held.append(asyncio.create_task(ask(world.port, other)))
            await eventually(lambda: world.agent.num_held == 3)
            third = await ask(world.port, chat_request("hi", tenant="initech", model="tps-reports"))
            assert third.code == "too_many_requests"
            world.agent.release.set()
            assert {answer.status for answer in await asyncio.gather(*held)} == {200}
            assert (await ask(world.port, chat_request("hi"))).status == 200
            assert world.app.num_in_flight == 0

    uvloop.run(story())


def test_a_head_is_bounded_in_bytes(tmp_path: Path) -> None:
    settings = GatewaySettings(head_bytes_max=4096)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            reader, writer = await connect(world.port)
            writer.write(b"GET / HTTP/1.1\r\n")
            for number in range(41):
                writer.write(b"x-%02d: %s\r\n" % (number, b"y" * 92))
                await asyncio.sleep(0.002)
            answer = await read_answer(reader)
            assert (answer.status, answer.code) == (400, "invalid_request")
            await close(writer)

    uvloop.run(story())


def test_each_head_of_a_connection_has_a_time_of_its_own(tmp_path: Path) -> None:
    settings = GatewaySettings(head_timeout_s=1.0)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            for sent in (b"", b"GET / HT"):
                reader, writer = await connect(world.port)
                writer.write(sent)
                async with asyncio.timeout(60):
                    assert await reader.read() == b""
                await close(writer)
            reader, writer = await connect(world.port)
            for _ in range(3):
                writer.write(raw_request(b"", method="GET", path="/healthz"))
                assert (await read_answer(reader)).status == 200
                await asyncio.sleep(0.4)
            await close(writer)

    uvloop.run(story())


def test_a_body_that_nobody_reads_may_not_trickle_for_ever(tmp_path: Path) -> None:
    settings = GatewaySettings(head_timeout_s=0.3)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            reader, writer = await connect(world.port)
            writer.write(raw_request(b"{", token="hs_wrong", headers={"content-length": "1000"}))
            assert (await read_answer(reader)).status == 401
            async with asyncio.timeout(60):
                while not reader.at_eof():
                    writer.write(b" ")
                    await asyncio.sleep(0.05)
                    if reader.at_eof() or writer.transport.is_closing():
                        break
            await close(writer)

    uvloop.run(story())


def test_connections_are_bounded(tmp_path: Path) -> None:
    settings = GatewaySettings(connections_max=3)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            open_ones = [await connect(world.port) for _ in range(3)]
            await eventually(lambda: world.num_connections == 3)
            reader, writer = await connect(world.port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            await close(writer)
            open_ones[0][1].write(raw_request(b"", method="GET", path="/healthz"))
            assert (await read_answer(open_ones[0][0])).status == 200
            for _, each in open_ones:
                await close(each)
            await eventually(lambda: world.num_connections == 0)
            assert (await ask(world.port, raw_request(b"", method="GET", path="/healthz"))).status == 200

    uvloop.run(story())


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"NONSENSE\r\n\r\n", "invalid_request"),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", "invalid_request"),
        (b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", "invalid_request"),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", "invalid_request"),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -5\r\n\r\n", "invalid_request"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n\r\n", "unauthenticated"),
        (b"GET /v1/%ff%fe HTTP/1.1\r\nhost: h\r\n\r\n", "route_not_found"),
        (b"DELETE /v1/models/support HTTP/1.1\r\nhost: h\r\n\r\n", "method_not_allowed"),
        (b"OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: h\r\n\r\n", "method_not_allowed"),
        (b"GET /v1/chat/completions/ HTTP/1.1\r\nhost: h\r\n\r\n", "route_not_found"),
        (b"POST /V1/CHAT/COMPLETIONS HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", "route_not_found"),
        (b"POST //v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", "route_not_found"),
        (b"POST /v1/load_lora_adapter HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", "route_not_found"),
        (b"POST /v1/embeddings HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", "route_not_found"),
        (b"POST /invocations HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n", "route_not_found"),
    ],
)  # fmt: skip
def test_what_is_no_request_of_ours_has_an_answer_of_ours(tmp_path: Path, request_bytes: bytes, code: str) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            answer = await ask(world.port, request_bytes)
            assert answer.code == code
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.headers["x-request-id"]) == 32

    uvloop.run(story())


@pytest.mark.parametrize(
    "headers",
    [{"content-type": ""}, {"content-type": "text/plain"}, {"content-encoding": "gzip"}],
)
def test_a_body_that_is_not_plain_json_is_a_400(tmp_path: Path, headers: dict[str, str]) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            answer = await ask(world.port, chat_request("hi", headers=headers))
            assert (answer.status, answer.code) == (400, "invalid_request")

    uvloop.run(story())


def test_head_requests_and_expectations(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(raw_request(b"", method="HEAD", path="/healthz"))
            status, headers = await read_head(reader)
            assert (status, headers["content-length"]) == (200, "15")
            request = chat_request("hi", headers={"expect": "100-continue"})
            head_size = request.index(b"\r\n\r\n") + 4
            writer.write(request[:head_size])
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(request[head_size:])
            assert (await read_answer(reader)).status == 200
            await close(writer)

    uvloop.run(story())


def test_what_is_no_http_is_answered_and_leaves_no_line_in_the_log(tmp_path: Path) -> None:
    said: list[str] = []
    server = logging.getLogger("uvicorn.error")
    hears = logging.Handler()
    hears.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]

    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            for noise in (b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"):
                reader, writer = await connect(world.port)
                writer.write(noise)
                assert (await read_answer(reader)).status == 400
                await close(writer)

    server.addHandler(hears)
    try:
        uvloop.run(story())
    finally:
        server.removeHandler(hears)
    assert said == []
