"""Starts `hotset serve` as a process of its own, for commands (and tests) that need a server for a while."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import httpx

from hotset.cli.client import AdminClient, unix_client
from hotset.cli.ending import ending_in_order
from hotset.cli.running import Addresses
from hotset.cli.serve import read_addresses
from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, ServerUnreachableError
from hotset.storage.durable import make_private_folder
from hotset.storage.state_folder import StateFolder

_START_TIMEOUT_S = 60.0
_READY_TIMEOUT_S = 900.0
_STOP_TIMEOUT_S = 60.0
_POLL_S = 0.05
_LAST_WORDS_CHARS = 2000
LOG_FILE = "server.log"


class ServerProcess:
    """A running server that was started by us."""

    def __init__(
        self, process: subprocess.Popen[bytes], addresses: Addresses, admin: AdminClient, log: Path, clock: Clock
    ) -> None:
        self._process = process
        self._log = log
        self._clock = clock
        self.admin = admin
        #: The tenant plane, such as ``http://127.0.0.1:8080``.
        self.base_url = addresses.tenant_url
        self.admin_url = addresses.admin_url
        self.pid = process.pid

    def wait_ready(self) -> None:
        """Return once an engine serves.

        Raises:
            EngineUnavailableError: none came up in time, or the server ended; the message holds its last words.
        """
        deadline_s = self._clock.monotonic_s() + _READY_TIMEOUT_S
        while self._clock.monotonic_s() < deadline_s:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.base_url}/readyz", timeout=5.0, trust_env=False).is_success:
                    return
            time.sleep(_POLL_S)
        raise EngineUnavailableError(f"No engine came up; the server said: {last_words(self._log)}")

    def wait_end(self) -> None:
        """Return when the server has ended."""
        self._process.wait()


@contextlib.contextmanager
def server_process(
    home: Path, clock: Clock, *, flags: Sequence[str] = (), environment: dict[str, str] | None = None
) -> Generator[ServerProcess]:
    """Give a server over a state folder; leaving the context drains and stops it.

    SIGTERM leaves the context too; where this process is killed, the server ends by itself.

    Args:
        home: The state folder.
        clock: Bounds the waits.
        flags: More arguments of `hotset serve`.
        environment: The child's variables; ours by default.

    Raises:
        ServerUnreachableError: it did not start; the message holds its last words.
    """
    folder = StateFolder(home)
    for path in (folder.path, folder.logs):
        make_private_folder(path)
    log = folder.logs / LOG_FILE
    command = [sys.executable, "-m", "hotset.cli", "--home", str(folder.path), "serve", "--until-input-ends", *flags]
    with log.open("wb") as output:
        # A session of its own: an interrupt typed at the terminal is ours to pass on, once.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own arguments
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    with ending_in_order(), process:
        try:
            addresses = _wait_started(process, home, log, clock)
            with unix_client(folder.admin_socket) as admin:
                yield ServerProcess(process, addresses, admin, log, clock)
        finally:
            _stop(process)


def last_words(log: Path) -> str:
    """Return the end of a server's log in one line."""
    text = log.read_text(encoding="utf-8", errors="replace")[-_LAST_WORDS_CHARS:]
    return " | ".join(line.strip() for line in text.splitlines() if line.strip()) or "nothing"


def _wait_started(process: subprocess.Popen[bytes], home: Path, log: Path, clock: Clock) -> Addresses:
    deadline_s = clock.monotonic_s() + _START_TIMEOUT_S
    while process.poll() is None and clock.monotonic_s() < deadline_s:
        addresses = read_addresses(home)
        if addresses is not None and addresses.pid == process.pid:
            return addresses
        time.sleep(_POLL_S)
    raise ServerUnreachableError(f"The server did not start; it said: {last_words(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
