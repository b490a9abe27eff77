"""A bench's child processes: each in a group of its own, its words in a log file, ended and reaped."""

import contextlib
import http.client
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType

from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError

_POLL_S = 0.1


@dataclass(slots=True)
class Child:
    """One started process and where its words go."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The process id, which is the group's as well."""
        return self.popen.pid

    def last_words(self, num_lines: int = 15) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-num_lines:])

    def read_line(self, timeout_s: float) -> str:
        """Return the next line of its standard output.

        Raises:
            EngineUnavailableError: it ended or stayed silent; the message holds its last words.
        """
        assert self.popen.stdout is not None
        ready, _, _ = select.select([self.popen.stdout], [], [], timeout_s)
        line = self.popen.stdout.readline().decode() if ready else ""
        if not line:
            raise EngineUnavailableError(f"{self.name} said nothing; its log ends with: {self.last_words()}")
        return line.rstrip("\n")

    def send_line(self, line: bytes) -> None:
        """Write one line to its standard input.

        Raises:
            EngineUnavailableError: it is gone.
        """
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(line + b"\n")
            self.popen.stdin.flush()
        except BrokenPipeError as error:
            raise EngineUnavailableError(f"{self.name} is gone; its log ends with: {self.last_words()}") from error

    def end(self, gentle_s: float) -> None:
        """Close its input, then ask its group to end, then insist; reap it."""
        patience_s = gentle_s if self.popen.stdin is not None else 0.0
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it left first
                    pipe.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                patience_s = gentle_s
                with contextlib.suppress(ProcessLookupError):  # the whole group is gone
                    os.killpg(self.popen.pid, number)
                    os.killpg(self.popen.pid, signal.SIGCONT)  # one that is stopped hears nothing else
            with contextlib.suppress(subprocess.TimeoutExpired):  # the next way is harder
                self.popen.wait(patience_s)
        self.popen.wait()  # nothing outlives the last way, however long a busy machine takes for it


class Nursery:
    """Starts children under one folder; leaving its context ends them all, last started first."""

    def __init__(self, folder: Path, clock: Clock, *, gentle_s: float = 5.0) -> None:
        """Prepare to start children.

        Args:
            folder: Where their logs go, and their working folder.
            clock: Where time comes from.
            gentle_s: How long a child may take to end before it is asked in a harder way.
        """
        self.folder = folder
        self.clock = clock
        self.gentle_s = gentle_s
        self.children: list[Child] = []
        self._former: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> "Nursery":
        """Leave in good order, too, when this process is told to end."""
        if current_thread() is main_thread():
            self._former = signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self.children):
            child.end(self.gentle_s)
        if self._former is not None:
            signal.signal(signal.SIGTERM, self._former)

    def start(self, name: str, command: Sequence[str], *, talks: bool = False) -> Child:
        """Start a process.

        Args:
            name: Names it in messages and its log file.
            command: The program, by its full path, and its arguments.
            talks: Keep its standard input and output as pipes for lines.
        """
        log = self.folder / f"{name}.log"
        with log.open("ab") as words:
            popen = subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                list(command),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else words,
                stderr=words,
                start_new_session=True,
                cwd=self.folder,
            )
        child = Child(name, popen, log)
        self.children.append(child)
        return child

    def wait_http(self, child: Child, port: int, path: str, timeout_s: float) -> None:
        """Wait until a child answers ``GET path`` with 200.

        Raises:
            EngineUnavailableError: it ended, or did not answer in time; the message holds its last words.
        """
        ends_at = self.clock.monotonic_s() + timeout_s
        pause = Event()
        while self.clock.monotonic_s() < ends_at:
            if child.popen.poll() is not None:
                raise EngineUnavailableError(f"{child.name} ended while starting: {child.last_words()}")
            if _answers(port, path):
                return
            pause.wait(_POLL_S)
        raise EngineUnavailableError(f"{child.name} did not answer in {timeout_s:.0f} s: {child.last_words()}")


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # not up yet; the caller asks again until its time is over
    finally:
        connection.close()


def free_port() -> int:
    """Return a loopback port that is free now; for programs that can't choose one and say so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
