"""The served fake engine on a real socket, without a process of its own, and requests to it over plain HTTP."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from hotset.core.ids import EngineName
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.fake.server.running import serve
from tests.support.adapters import make_adapter, tiny_base_shape


class Fake:
    """One engine and a client of it."""

    def __init__(self, client: httpx.AsyncClient, serving: asyncio.Task[str]) -> None:
        self.client = client
        self.serving = serving

    async def post(self, path: str, **body: object) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def load(self, name: str, path: Path | str, **more: object) -> httpx.Response:
        return await self.post("/v1/load_lora_adapter", lora_name=name, lora_path=str(path), **more)

    async def unload(self, name: str) -> httpx.Response:
        return await self.post("/v1/unload_lora_adapter", lora_name=name)

    async def chat(self, model: str, text: str = "hello there", *, max_tokens: int = 4, **more: object) -> str:
        answer = await self.ask(model, text, max_tokens=max_tokens, **more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["message"]["content"])

    async def ask(self, model: str, text: str = "hello there", **more: object) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        return await self.post("/v1/chat/completions", model=model, messages=messages, **more)

    @contextlib.asynccontextmanager
    async def streaming(self, model: str, *, max_tokens: int) -> AsyncIterator["Stream"]:
        messages = [{"role": "user", "content": "hello there"}]
        body = {"model": model, "messages": messages, "max_tokens": max_tokens, "stream": True}
        async with self.client.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200
            yield Stream(response)

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = (await self.client.get("/hotset/v1/state")).json()
        return state

    async def held(self) -> dict[str, str]:
        """Name to tier of every adapter that the engine knows."""
        return {held["name"]: held["tier"] for held in (await self.state())["held"]}


class Stream:
    """A stream read one piece of text at a time."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.finish_reason: str | None = None
        self.error: dict[str, Any] | None = None

    async def next(self) -> str | None:
        """Return the next piece that is not empty; None at the end."""
        async for line in self._lines:
            if line == "data: [DONE]":
                return None
            if not line:
                continue
            chunk = json.loads(line.removeprefix("data: "))
            self.error = chunk.get("error")
            for choice in chunk.get("choices", ()):
                self.finish_reason = choice["finish_reason"]
                if choice["delta"]["content"]:
                    return str(choice["delta"]["content"])
        return None

    async def rest(self) -> str:
        text = ""
        while (piece := await self.next()) is not None:
            text += piece
        return text


@contextlib.asynccontextmanager
async def fake_server(**options: Any) -> AsyncIterator[Fake]:
    """Serve a fake engine in this process, fifty times as fast as its profile unless told otherwise."""
    stop = asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="hotset-fake-") as folder:
        uds = str(Path(folder) / "engine.sock")
        chosen = {"speed": 50.0, "max_loras": 2, "runtime_lora_updating": True, **options}
        serving = asyncio.create_task(serve(ServerOptions(uds=uds, **chosen), stop))
        transport = httpx.AsyncHTTPTransport(uds=uds)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as client:
                await _until_healthy(client, serving)
                yield Fake(client, serving)
        finally:
            stop.set()
            await serving


async def _until_healthy(client: httpx.AsyncClient, serving: asyncio.Task[str]) -> None:
    while not serving.done():
        with contextlib.suppress(httpx.ConnectError):
            assert (await client.get("/health")).status_code == 200
            return
        await asyncio.sleep(0.005)
    serving.result()


def adapter_folders(root: Path, *names: str) -> dict[str, Path]:
    """Write an adapter for each name, all of different bytes."""
    shape = tiny_base_shape()
    return {name: make_adapter(root / name, shape, seed=seed, rank=4) for seed, name in enumerate(names)}


def engine_names(letters: str) -> list[EngineName]:
    return [EngineName("hs-" + letter * 32) for letter in letters]
