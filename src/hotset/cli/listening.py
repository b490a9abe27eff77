"""Sockets that are bound before anything is served on them, and a uvicorn server that leaves signals alone."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from hotset.core.errors import ConfigError

#: What the kernel takes for a Unix socket's path, the final zero byte included.
_UNIX_PATH_BYTES_MAX = 108
_BACKLOG = 4096


def bind_tcp(host: str, port: int, setting: str) -> socket.socket:
    """Return a bound TCP socket.

    Raises:
        ConfigError: the address is in use or not this machine's; the message names the setting.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"{host}:{port} can't be listened on ({error.strerror}); set {setting}.", param=setting
        ) from error
    return bound


def free_port(host: str, wanted: int) -> int:
    """Return `wanted` if it can be listened on now, else 0, by which the system chooses."""
    try:
        bind_tcp(host, wanted, "port").close()
    except ConfigError:
        return 0
    return wanted


def bind_unix(path: Path) -> socket.socket:
    """Return a Unix socket bound at `path`, readable by its owner alone; one left by a former life is replaced.

    Raises:
        ConfigError: the path is longer than a Unix socket's may be, or something else than a socket is in its place.
    """
    if len(os.fsencode(path)) >= _UNIX_PATH_BYTES_MAX:
        raise ConfigError(
            f"{path} is too long for a socket; set HOTSET_HOME to a path of at most "
            f"{_UNIX_PATH_BYTES_MAX - 1 - len(os.fsencode(path.relative_to(path.parents[1]))) - 1} bytes.",
            param="HOTSET_HOME",
        )
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} is in the way of the server's socket ({error.strerror}); move it.") from error
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    path.chmod(0o600)
    return bound


def address_of(bound: socket.socket) -> str:
    """Return where a TCP socket is reached, such as ``http://127.0.0.1:8080``."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to whoever runs it, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.has_started.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def admin_server(app: ASGIApp) -> QuietServer:
    """Return a server of one listener of the operator plane."""
    return QuietServer(
        uvicorn.Config(
            app,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=10,
        )
    )
