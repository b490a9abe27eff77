"""An engine's process as its owner holds it: started, heard while it speaks, ended for sure."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from hotset.engines.last_words import LastWords

_STOP_TIMEOUT_S = 5.0


class ChildProcess:
    """One process; its standard error is kept, bounded, so that a start that fails says why."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self.last_words = LastWords()

    @property
    def pid(self) -> int | None:
        """The process's id, once it started."""
        return self._process.pid if self._process else None

    async def start(
        self, *command: str, stdin: int, environment: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
    ) -> None:
        """Start the process.

        Args:
            command: The program and its arguments.
            stdin: What it reads: `asyncio.subprocess.PIPE` or `DEVNULL`.
            environment: What it sees of one; None is this process's own.
            pass_fds: Open files that it inherits.

        Raises:
            OSError: it can't be started; no more processes, files or memory.
        """
        self._process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            pass_fds=pass_fds,
            stdin=stdin,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self.last_words.listen(self._process.stderr)

    async def wait(self) -> None:
        """Return once the process ended."""
        assert self._process is not None
        await self._process.wait()

    def ask_to_end(self) -> None:
        """Tell the process to end, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it ended between the two lines
                self._process.terminate()

    async def end(self) -> None:
        """Wait for the end of a process that was told to end, or that saw its owner go, and kill it if none comes."""
        process = self._process
        if process is not None:
            try:
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        await self.last_words.heard()
        if process is not None and process.stdin is not None:
            process.stdin.close()
