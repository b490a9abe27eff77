"""Control for the length of one command, where no server runs: the same API over a Unix socket of its own.

The state folder is held under its lock meanwhile. The API runs on a thread with an event loop of its own, so that a
command reads progress as it comes, exactly as from a server.
"""

import asyncio
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from hotset.cli.listening import admin_server, bind_unix
from hotset.cli.settings import Settings
from hotset.cli.wiring import make_control
from hotset.control.api import build_admin_app
from hotset.control.witnesses import OwnProcess
from hotset.core.clock import Clock
from hotset.storage.state_folder import StateFolder
from hotset.telemetry.request_log import find_in


class LocalControl:
    """A context in which the admin API is served at `socket`."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._folder = StateFolder(settings.home)
        self._lock = self._folder.locked()
        self._ready: Future[str | None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="local-control")
        #: The first admin token, the one time there is one.
        self.first_token: str | None = None

    @property
    def socket(self) -> Path:
        """Where the admin API is reached inside the context."""
        return self._folder.run / f"local-{os.getpid()}.sock"

    def __enter__(self) -> "LocalControl":
        """Take the lock and serve.

        Raises:
            StateLockedError: another process holds the state folder.
            ConfigError: a key file is damaged, or the socket's path is too long.
        """
        self._lock.__enter__()
        try:
            self._folder.initialise()
            for stale in self._folder.run.glob("local-*.sock"):
                stale.unlink(missing_ok=True)
            self._thread.start()
            self.first_token = self._ready.result()
        except BaseException as error:
            self._join()
            self._lock.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let long work end, then give the folder back."""
        self._join()
        self._lock.__exit__(kind, error, trace)

    def _join(self) -> None:
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for us
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        control = make_control(self._settings, self._folder, self._clock)
        control.witness = OwnProcess(lambda request: find_in(self._folder.logs, request), absent=control.absent)
        try:
            opened = await control.open()
            app = build_admin_app(control, lambda: "", is_local=True)
            with bind_unix(self.socket) as bound:
                server = admin_server(app)
                serving = asyncio.create_task(server.serve(sockets=[bound]))
                await server.has_started.wait()
                self._ready.set_result(opened.first_token)
                await self._stop.wait()
                server.should_exit = True
                await serving
        finally:
            await control.close()
            self.socket.unlink(missing_ok=True)
