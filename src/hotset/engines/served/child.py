"""The process of an engine that serves HTTP: started in a folder of its own, heard while it speaks, ended for sure."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hotset.core.errors import EngineUnavailableError
from hotset.engines.last_words import LastWords

_STOP_TIMEOUT_S = 5.0


class EngineChild:
    """One process and its private folder, which holds the socket that it listens on.

    Its standard input is a pipe that it may watch: it ends when its owner does, however that ended.
    """

    def __init__(self, command_of: Callable[[Path], Sequence[str]], environment: Mapping[str, str] | None) -> None:
        """Make the folder, of mode 0700; nothing runs yet.

        Args:
            command_of: Socket → the program and its arguments.
            environment: What it sees of one; None is this process's own.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="hotset-engine-"))
        self.socket = self._folder / "engine.sock"
        self.command = tuple(command_of(self.socket))
        self._environment = environment
        self._child: asyncio.subprocess.Process | None = None
        self.last_words = LastWords()

    @property
    def pid(self) -> int | None:
        """The process's id, once it started."""
        return self._child.pid if self._child else None

    async def start(self) -> None:
        """Start the process.

        Raises:
            EngineUnavailableError: it can't be started.
        """
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self.command,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise EngineUnavailableError(f"the engine's process can't be started: {error}") from error
        self.last_words.listen(self._child.stderr)

    async def wait(self) -> None:
        """Return once the process ended."""
        assert self._child is not None
        await self._child.wait()

    async def end(self) -> None:
        """End the process, gently first, and take its folder away."""
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it ended between the two lines
                self._child.terminate()
            try:
                await asyncio.wait_for(self._child.wait(), _STOP_TIMEOUT_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._child.kill()
                await self._child.wait()
        await self.last_words.heard()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
