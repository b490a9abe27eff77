"""Puts the routes of one served fake engine together."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hotset.engines.fake.server.faults import FaultRoutes
from hotset.engines.fake.server.generating import Generating
from hotset.engines.fake.server.pages import Pages
from hotset.engines.fake.server.plugin_routes import PluginRoutes
from hotset.engines.fake.server.refusal import ENGINE_DIED, json_answer
from hotset.engines.fake.server.serving import Serving
from hotset.engines.fake.server.sglang import SglangHabits
from hotset.engines.fake.server.vllm import VllmHabits


def build_app(serving: Serving) -> ASGIApp:
    """Return the engine as an ASGI app; whoever runs it runs `serving.stepper` too."""
    habits = SglangHabits(serving) if serving.options.habits == "sglang" else VllmHabits(serving)
    pages = Pages(serving)
    routes: list[Route] = [
        *pages.routes(),
        *Generating(serving, habits.resolve, pages.note_request).routes(),
        *habits.routes(),
    ]
    if serving.options.plugin:
        routes += PluginRoutes(serving, habits.purge).routes()
    if serving.options.faults:
        routes += FaultRoutes(serving).routes()
    app = Starlette(routes=list(routes), exception_handlers={HTTPException: _not_found})
    return _DeadOrAlive(app, serving)


class _DeadOrAlive:
    """Answers everything but `/health` with a 500 once the engine died, as long as its server is still there."""

    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self._app = app
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        is_dead = self._serving.stepper.died.is_set() and scope["type"] == "http" and scope["path"] != "/health"
        await (ENGINE_DIED.answer() if is_dead else self._app)(scope, receive, send)


async def _not_found(_: Request, error: Exception) -> Response:
    """Say it as FastAPI does."""
    assert isinstance(error, HTTPException)
    return json_answer({"detail": error.detail}, error.status_code)
