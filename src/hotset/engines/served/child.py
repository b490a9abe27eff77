"""The process of an engine that serves HTTP, in a folder of its own."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hotset.core.errors import EngineUnavailableError
from hotset.engines.child_process import ChildProcess
from hotset.engines.last_words import LastWords


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
        self._process = ChildProcess()

    @property
    def pid(self) -> int | None:
        """The process's id, once it started."""
        return self._process.pid

    @property
    def last_words(self) -> LastWords:
        """What the process said last."""
        return self._process.last_words

    async def start(self) -> None:
        """Start the process.

        Raises:
            EngineUnavailableError: it can't be started.
        """
        try:
            await self._process.start(*self.command, stdin=asyncio.subprocess.PIPE, environment=self._environment)
        except OSError as error:
            raise EngineUnavailableError(f"the engine's process can't be started: {error}") from error

    async def wait(self) -> None:
        """Return once the process ended."""
        await self._process.wait()

    async def end(self) -> None:
        """End the process, gently first, and take its folder away."""
        self._process.ask_to_end()
        await self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)
