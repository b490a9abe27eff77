"""The admin API's ASGI app: authenticate, validate, call one command, answer.

One app is built for each listener: the one on the Unix socket says `is_local` and takes every caller for the local
admin (the socket's mode is the check); the one on TCP asks for an operator token. Commands check roles themselves.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hotset.control.actors import LOCAL_ADMIN, Actor
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply, read_body
from hotset.control.openapi import openapi_document
from hotset.control.problems import problem_response
from hotset.control.routes_adapters import (
    adapter_endpoints,
    upload_endpoints,
    version_endpoints,
    withholding_endpoints,
)
from hotset.control.routes_fleet import freeze_endpoints, pool_endpoints, worker_endpoints
from hotset.control.routes_holders import holder_endpoints
from hotset.control.routes_installation import base_endpoints, installation_endpoints, store_endpoints
from hotset.control.routes_jobs import job_endpoints
from hotset.control.routes_on_call import on_call_endpoints
from hotset.control.routes_residency import residency_endpoints
from hotset.control.routes_tenancy import grant_endpoints, key_endpoints, tenant_endpoints
from hotset.control.streaming import NDJSON_TYPE, Listening
from hotset.core.errors import (
    HotsetError,
    InvalidRequestError,
    MethodNotAllowedError,
    RouteNotFoundError,
)

_log = logging.getLogger(__name__)

PREFIX = "/admin/v1"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[Request], Awaitable[Response]]


def build_admin_app(control: Control, metrics_text: Callable[[], str], *, is_local: bool) -> Starlette:
    """Return the app of one listener of the operator plane.

    Args:
        control: The commands.
        metrics_text: Returns the metrics in Prometheus' text format.
        is_local: The listener is the Unix socket of this installation, which only its own user can open.
    """
    endpoints = admin_endpoints(control)
    listening = control.listening
    document = msgspec.json.encode(openapi_document(endpoints, PREFIX, control.version))

    async def authenticate(request: Request) -> Actor:
        return LOCAL_ADMIN if is_local else await control.operators.authenticate(_bearer(request))

    async def healthz(_request: Request) -> Response:
        return _json(b'{"status":"ok"}')

    async def openapi(_request: Request) -> Response:
        return _json(document)

    async def metrics(request: Request) -> Response:
        await authenticate(request)
        return Response(metrics_text(), media_type=METRICS_TYPE)

    routes = [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route(f"{PREFIX}/openapi.json", openapi, methods=["GET"]),
        *(Route(PREFIX + row.path, _handler(row, authenticate, listening), methods=[row.method]) for row in endpoints),
    ]
    handlers = {HotsetError: _on_error, HTTPException: _on_http_exception, Exception: _on_failure}
    return Starlette(routes=routes, exception_handlers=handlers)


def admin_endpoints(control: Control) -> list[Endpoint]:
    """Return the whole table of endpoints under `PREFIX`."""
    return [
        *installation_endpoints(control),
        *store_endpoints(control),
        *on_call_endpoints(control),
        *residency_endpoints(control),
        *holder_endpoints(control),
        *worker_endpoints(control),
        *freeze_endpoints(control),
        *pool_endpoints(control),
        *base_endpoints(control),
        *tenant_endpoints(control),
        *key_endpoints(control),
        *grant_endpoints(control),
        *job_endpoints(control),
        *upload_endpoints(control),
        *adapter_endpoints(control),
        *version_endpoints(control),
        *withholding_endpoints(control),
    ]


def _handler(endpoint: Endpoint, authenticate: Callable[[Request], Awaitable[Actor]], listening: Listening) -> Handler:
    async def handle(request: Request) -> Response:
        actor = await authenticate(request)
        body = None if endpoint.body is None else await read_body(request, endpoint.body)
        if endpoint.is_long and NDJSON_TYPE in request.headers.get("accept", ""):
            lines = listening.lines(lambda report: endpoint.handle(Call(actor, request, body, report)))
            return StreamingResponse(lines, media_type=NDJSON_TYPE)
        return _response(await endpoint.handle(Call(actor, request, body)))

    return handle


def _response(reply: Reply) -> Response:
    if reply.answer is None:
        return Response(status_code=reply.status)
    return _json(reply.answer.model_dump_json().encode(), reply.status)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, {"Cache-Control": "no-store"}, media_type="application/json")


def _bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HotsetError), "registered for this class"
    return problem_response(error)


async def _on_http_exception(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    known: dict[int, HotsetError] = {404: RouteNotFoundError(), 405: MethodNotAllowedError()}
    return problem_response(known.get(status, InvalidRequestError()))


async def _on_failure(_request: Request, error: Exception) -> Response:
    _log.error("an admin request failed", exc_info=error)
    return problem_response(HotsetError())
