"""`/v1/chat/completions` and `/v1/completions` over the loop; a client that leaves takes its request with it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hotset.core.errors import ContextLengthExceededError, EngineFailedError
from hotset.core.ids import RequestId
from hotset.core.messages import Delta, EngineEvent, Failed, Finished, Generate, Started
from hotset.engines.event_stream import EventStream
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.server.bodies import Body, ChatBody, CompletionBody
from hotset.engines.fake.server.refusal import ENGINE_DIED, Refusal, json_answer, read_body
from hotset.engines.fake.server.rendering import Renderer
from hotset.engines.fake.server.serving import Serving

#: With which the plugin ends a request: not an error, but no end of its own either.
ABORTED = "aborted"


class Resolve(Protocol):
    """Says which adapter a request names; None is the base."""

    async def __call__(self, model: str, lora_path: str | None, /) -> AdapterKey | Refusal | None:
        """Return it, or why there is none."""
        ...


class Generating:
    """The routes of one engine."""

    def __init__(self, serving: Serving, resolve: Resolve, note_request: Callable[[], None]) -> None:
        """Serve an engine.

        Args:
            serving: The engine.
            resolve: Says which adapter a request names.
            note_request: Told after each request that came.
        """
        self._serving = serving
        self._resolve = resolve
        self._note_request = note_request

    def routes(self) -> list[Route]:
        """Return the routes; `/invocations` is a chat without a key (seen on vLLM 0.32.0)."""
        chats = [Route(path, self._chat, methods=["POST"]) for path in ("/v1/chat/completions", "/invocations")]
        return [*chats, Route("/v1/completions", self._complete, methods=["POST"])]

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, ChatBody)
        return body.answer() if isinstance(body, Refusal) else await self._answer(request, body, body.generate)

    async def _complete(self, request: Request) -> Response:
        body = await read_body(request, CompletionBody)
        return body.answer() if isinstance(body, Refusal) else await self._answer(request, body, body.generate)

    async def _answer(self, request: Request, body: Body, generate: "_Generate") -> Response:
        adapter = await self._resolve(body.model, body.lora_path)
        if isinstance(adapter, Refusal):
            return adapter.answer()
        request_id = RequestId(body.request_id or request.headers.get("x-request-id") or secrets.token_hex(8))
        wanted = generate(request_id)
        stream = self._serving.stepper.generate(wanted, adapter)
        self._note_request()
        first = (await stream.events())[0]
        if isinstance(first, Failed):
            return _refused(first).answer()
        created = int(self._serving.clock.wall_s())
        renderer = Renderer(wanted, model=body.model, created=created, usage=body.usage)
        if body.stream:
            return _CancelledWhenLeft(stream, renderer)
        return await _whole(request, stream, renderer)


class _Generate(Protocol):
    def __call__(self, request_id: RequestId) -> Generate: ...


class _CancelledWhenLeft(StreamingResponse):
    """A stream that ends its request however it ends itself, also where its client left before the first byte."""

    def __init__(self, stream: EventStream, renderer: Renderer) -> None:
        self._stream = stream
        super().__init__(_pieces(stream, renderer), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stream.abort()


async def _pieces(stream: EventStream, renderer: Renderer) -> AsyncIterator[bytes]:
    while events := await stream.events():
        yield b"".join(_piece(event, renderer) for event in events)


def _piece(event: EngineEvent, renderer: Renderer) -> bytes:
    match event:
        case Delta():
            return renderer.chunks(event)
        case Failed(code=code) if code == ABORTED:
            return renderer.aborted()
        case Finished() | Failed():
            return renderer.end(event)
        case Started():
            return b""


async def _whole(request: Request, stream: EventStream, renderer: Renderer) -> Response:
    """Return the whole answer; a client that leaves meanwhile ends its request, and nobody reads the answer."""
    collecting = asyncio.create_task(_collect(stream, renderer))
    leaving = asyncio.ensure_future(request.receive())  # the body was read: what comes next is the client's end
    try:
        await asyncio.wait({collecting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not collecting.done():
            return Response(status_code=499)
        return collecting.result()
    finally:
        leaving.cancel()
        collecting.cancel()
        await stream.abort()


async def _collect(stream: EventStream, renderer: Renderer) -> Response:
    while events := await stream.events():
        for event in events:
            match event:
                case Delta():
                    renderer.collect(event)
                case Finished():
                    return json_answer(renderer.whole(event))
                case Failed() | Started():
                    continue
    return ENGINE_DIED.answer()


def _refused(failed: Failed) -> Refusal:
    if failed.code == ContextLengthExceededError.code:
        message = f"This model's maximum context length was exceeded: {failed.message}"
        return Refusal(400, "BadRequestError", message)
    return ENGINE_DIED if failed.code == EngineFailedError.code else Refusal(503, "ServiceUnavailable", failed.message)
