"""What an endpoint of the admin API is: one row of a table that makes both the routes and the OpenAPI document."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from hotset.control.actors import Actor
from hotset.control.answers import Answer
from hotset.control.bodies import Body
from hotset.control.progress import Report, silent
from hotset.core.errors import InvalidRequestError, RequestTimeoutError, RequestTooLargeError
from hotset.core.ids import AdapterId, VersionRef, parse_version_number

_BODY_BYTES_MAX = 1 << 20
_CHUNK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and its status; no answer is an empty body."""

    answer: Answer | None
    status: int = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One request, authenticated and parsed."""

    actor: Actor
    request: Request
    body: Body | None = None
    report: Report = silent

    def param(self, name: str) -> str:
        """Return a part of the path, percent-decoded."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """Return a query parameter."""
        return self.request.query_params.get(name)

    def flag(self, name: str) -> bool:
        """Return a query parameter that is ``true`` or ``false``, false where it is absent.

        Raises:
            InvalidRequestError: it is anything else.
        """
        text = self.query(name) or "false"
        if text not in ("true", "false"):
            raise InvalidRequestError(f"{name} is true or false.", param=name)
        return text == "true"

    def number(self, name: str, default: int) -> int:
        """Return a query parameter that is a decimal number of at most 12 digits.

        Raises:
            InvalidRequestError: it is anything else.
        """
        text = self.query(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            raise InvalidRequestError(f"{name} is a decimal number.", param=name)
        return int(text)

    def adapter(self) -> AdapterId:
        """Return the adapter that the path names."""
        return AdapterId.parse(f"{self.param('owner')}/{self.param('name')}")

    def version(self) -> VersionRef:
        """Return the version that the path names."""
        return VersionRef(self.adapter(), parse_version_number(self.param("number")))


Handle = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path."""

    method: str
    path: str
    summary: str
    handle: Handle
    answer: type[Answer] | None
    body: type[Body] | None = None
    status: int = 200
    #: May take long: answers with progress where the caller accepts NDJSON.
    is_long: bool = False
    #: Query parameters, each with a JSON type.
    query: dict[str, str] = field(default_factory=dict[str, str])


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Read and validate a JSON body; an empty one is an empty object.

    Raises:
        InvalidRequestError: it is not valid; the message names the first field at fault.
        RequestTooLargeError: it is over 1 MiB.
        RequestTimeoutError: it did not arrive in time.
    """
    content = bytearray()
    async for chunk in body_chunks(request):
        content += chunk
        if len(content) > _BODY_BYTES_MAX:
            raise RequestTooLargeError("A JSON body is at most 1 MiB.")
    try:
        return kind.model_validate_json(bytes(content) or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise InvalidRequestError(f"{where}: {first['msg']}.", param=where) from error


async def body_chunks(request: Request, *, timeout_s: float = _CHUNK_TIMEOUT_S) -> AsyncIterator[bytes]:
    """Yield a body's pieces as they arrive.

    Raises:
        RequestTimeoutError: nothing arrived for `timeout_s`.
        InvalidRequestError: the client went away before the end.
    """
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                chunk = await anext(stream, None)
        except TimeoutError as error:
            raise RequestTimeoutError from error
        except ClientDisconnect as error:
            raise InvalidRequestError("The body ended too early.") from error
        if chunk is None:
            return
        if chunk:
            yield chunk


async def in_pieces(chunks: AsyncIterator[bytes], piece_bytes: int) -> AsyncIterator[bytes]:
    """Join small chunks into pieces of at least `piece_bytes`, but for the last."""
    piece = bytearray()
    async for chunk in chunks:
        piece += chunk
        if len(piece) >= piece_bytes:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
