"""Serves one fake engine until it is told to end, it dies, or its owner is gone."""

import asyncio
import sys
from typing import Any, cast

import uvicorn

from hotset.core.clock import SystemClock
from hotset.engines.fake.server.app import build_app
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.fake.server.serving import Serving

#: For which a server whose engine died still says so.
_AFTERLIFE_S = 0.3


async def serve(options: ServerOptions, stop: asyncio.Event) -> str:
    """Serve one engine until `stop` is set or a signal comes; return what it died of, empty where it did not."""
    serving = Serving(options, SystemClock())
    server = uvicorn.Server(_config(build_app(serving), options))
    tasks = [
        asyncio.create_task(serving.stepper.run(), name="steps"),
        asyncio.create_task(_end_when_told(server, stop), name="end when told"),
        asyncio.create_task(_end_after_death(server, serving.stepper.died), name="end after death"),
    ]
    if options.ends_with_stdin:
        tasks.append(asyncio.create_task(_await_end_of_stdin(stop), name="end with the owner"))
    try:
        await server.serve()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return serving.stepper.cause


def _config(app: object, options: ServerOptions) -> uvicorn.Config:
    where = {"uds": options.uds} if options.uds else {"host": options.host, "port": options.port}
    return uvicorn.Config(
        cast("Any", app),
        **cast("dict[str, Any]", where),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=0,
        backlog=4096,
    )


async def _end_when_told(server: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


async def _end_after_death(server: uvicorn.Server, died: asyncio.Event) -> None:
    await died.wait()
    await asyncio.sleep(_AFTERLIFE_S)
    server.should_exit = True


async def _await_end_of_stdin(stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop.set()
