"""A client that does to a connection what no well-behaved library would: halves, trickles, sudden departures."""

import asyncio
import json
from dataclasses import dataclass

from tests.support.snapshots import token_of


def chat_request(
    prompt: str,
    *,
    stream: bool = False,
    tenant: str = "acme",
    model: str = "support",
    headers: dict[str, str] | None = None,
    **fields: object,
) -> bytes:
    """The bytes of one chat request."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": stream, **fields}
    return raw_request(json.dumps(body).encode(), token=token_of(tenant), headers=headers)


def raw_request(
    body: bytes,
    *,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> bytes:
    """The bytes of any request; a header given as None is left out."""
    lines = {"host": "h", "content-type": "application/json", "content-length": str(len(body))}
    if token is not None:
        lines["authorization"] = f"Bearer {token}"
    lines.update(headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        return self.json()["error"]["code"]  # type: ignore[index]


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection."""
    return await asyncio.open_connection("127.0.0.1", port)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read a status line and headers."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    return int(head[0].split(" ")[1]), headers


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read a whole answer of a known length or in chunks."""
    status, headers = await read_head(reader)
    if "content-length" in headers:
        return Answer(status, headers, await reader.readexactly(int(headers["content-length"])))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return Answer(status, headers, body)


async def ask(port: int, request: bytes) -> Answer:
    """Send one request on a connection of its own and read its answer."""
    reader, writer = await connect(port)
    try:
        writer.write(request)
        await writer.drain()
        return await read_answer(reader)
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until it is."""
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        return


async def eventually(what: object, *, within_s: float = 60.0) -> None:
    """Wait until a callable is true, and fail if it never is: the bound is for a machine that is busy otherwise."""
    async with asyncio.timeout(within_s):
        while not what():  # type: ignore[operator]
            await asyncio.sleep(0.005)
