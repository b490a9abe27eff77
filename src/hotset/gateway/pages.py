"""The small pages of the tenant plane: models, jobs, health, readiness, and the answer to anything else.

The models a key sees are those it may call, by the same functions of `routing`.
"""

import logging
from collections.abc import Callable

import msgspec

from hotset.core.errors import ControlUnreachableError, HotsetError, MethodNotAllowedError, RouteNotFoundError
from hotset.core.ids import RequestId
from hotset.gateway.authenticate import Caller, Headers, authenticate
from hotset.gateway.endpoints import ENDPOINTS
from hotset.gateway.jobs.pages import JobPages
from hotset.gateway.outlet import HeaderList, Outlet, Send
from hotset.gateway.plane import Plane
from hotset.gateway.problems import answer_of, problem_of
from hotset.gateway.request_head import read_head
from hotset.gateway.watch import ClientGoneError
from hotset.routing.resolve import Resolved, resolve, visible_models
from hotset.telemetry.logs import of_request

_log = logging.getLogger(__name__)

_MODELS = "/v1/models"
_encode = msgspec.json.encode

Page = tuple[int, bytes]


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """One model as its tenant sees it: no paths, no engine names, no digests."""

    id: str
    object: str = "model"
    created: int
    owned_by: str
    #: The base's name; null for a base itself.
    parent: str | None
    #: Tokens of prompt and answer together; null while no engine serves it.
    max_model_len: int | None


class Pages:
    """Answers every request that generates nothing."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._jobs = JobPages(plane)
        self._by_path: dict[str, Callable[[], Page]] = {"/healthz": _health, "/readyz": self.readiness}

    async def answer(self, method: str, path: str, query: bytes, headers: Headers, send: Send) -> None:
        """Answer one request; every error of the tree ends here as its own answer."""
        request_id = self._plane.new_request_id()
        outlet = Outlet(send)
        try:
            own_headers: HeaderList = []
            if self._jobs.covers(path):
                key = self._caller(headers).key
                status, body, own_headers = await self._jobs.page(method, path, query, key)
            else:
                status, body = self._page(method, path, headers)
            answer_headers: HeaderList = [
                (b"content-type", b"application/json"),
                (b"cache-control", b"no-store"),
                (b"x-request-id", request_id.encode()),
                *own_headers,
            ]
        except HotsetError as error:
            status, answer_headers, body = self._problem(error, request_id, path)
        except Exception as error:  # noqa: BLE001 - a page's outermost handler: logged, and answered as a 500
            _log.exception("page failed", extra=of_request(request_id))
            status, answer_headers, body = answer_of(error, problem_of(error, request_id))
        try:
            await outlet.answer(status, answer_headers, body)
        except ClientGoneError:
            _log.debug("client left before its page", extra=of_request(request_id))

    def _page(self, method: str, path: str, headers: Headers) -> Page:
        if path in ENDPOINTS:
            raise MethodNotAllowedError
        if path not in self._by_path and path != _MODELS and not path.startswith(_MODELS + "/"):
            raise RouteNotFoundError
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowedError
        page = self._by_path.get(path)
        return page() if page is not None else (200, self._models(path, headers))

    def _caller(self, headers: Headers) -> Caller:
        plane = self._plane
        if plane.is_outdated():
            raise ControlUnreachableError
        return authenticate(plane.snapshot, read_head(headers).authorization, plane.clock.wall_s())

    def _models(self, path: str, headers: Headers) -> bytes:
        snapshot, caller = self._plane.snapshot, self._caller(headers)
        if path != _MODELS:
            return _encode(self._model_page(resolve(snapshot, caller.key, path[len(_MODELS) + 1 :]), caller.key.tenant))
        pages = [self._model_page(model, caller.key.tenant) for model in visible_models(snapshot, caller.key)]
        return _encode({"object": "list", "data": pages})

    def _model_page(self, model: Resolved, tenant: str) -> ModelPage:
        adapter = model.route.adapter
        agent = self._plane.agents.get(model.route.base)
        return ModelPage(
            id=model.model,
            created=int(model.created_at_s),
            owned_by=tenant if adapter is not None and adapter.owner == tenant else "hotset",
            parent=model.base_name if adapter is not None else None,
            max_model_len=(agent.model_len_max() or None) if agent is not None else None,
        )

    def readiness(self) -> Page:
        """Return the page that says whether requests are taken, and else why not."""
        plane = self._plane
        if plane.is_shutting_down:
            return 503, b'{"status":"shutting_down"}'
        if plane.snapshot.epoch == 0:
            return 503, b'{"status":"no_snapshot"}'
        if plane.is_outdated():
            return 503, b'{"status":"control_unreachable"}'
        if not any(agent.is_ready() for agent in plane.agents.values()):
            return 503, b'{"status":"no_engine"}'
        return 200, b'{"status":"ready"}'

    def _problem(self, error: HotsetError, request_id: RequestId, path: str) -> tuple[int, HeaderList, bytes]:
        self._plane.metrics.page_refused(error.code)
        status, headers, body = answer_of(error, problem_of(error, request_id))
        if isinstance(error, MethodNotAllowedError):
            headers.append((b"allow", self._allowed(path)))
        return status, headers, body

    def _allowed(self, path: str) -> bytes:
        if self._jobs.covers(path):
            return self._jobs.allowed(path)
        return b"POST" if path in ENDPOINTS else b"GET, HEAD"


def _health() -> Page:
    return 200, b'{"status":"ok"}'
