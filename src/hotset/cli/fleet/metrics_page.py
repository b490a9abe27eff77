"""A gateway's or worker's own small pages: metrics, health and readiness, on a listener apart from any tenant's."""

import socket
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hotset.cli.listening import QuietServer, admin_server, bind_tcp
from hotset.cli.settings import Settings
from hotset.control.api import METRICS_TYPE
from hotset.telemetry.metrics import Metrics


def metrics_servers(
    settings: Settings, metrics: Metrics, is_ready: Callable[[], bool]
) -> list[tuple[QuietServer, socket.socket]]:
    """Return the server of these pages, bound; none where the settings name no port.

    Raises:
        ConfigError: the address can't be listened on.
    """
    port = settings.fleet.metrics_port
    if port is None:
        return []

    async def show_metrics(_request: Request) -> Response:
        return Response(metrics.text(), media_type=METRICS_TYPE)

    async def healthz(_request: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz(_request: Request) -> Response:
        ready = is_ready()
        body = b'{"status":"ready"}' if ready else b'{"status":"not_ready"}'
        return Response(body, 200 if ready else 503, media_type="application/json")

    pages = {"/metrics": show_metrics, "/healthz": healthz, "/readyz": readyz}
    app = Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])
    bound = bind_tcp(settings.fleet.metrics_host, port, "fleet.metrics_port")
    return [(admin_server(app), bound)]
