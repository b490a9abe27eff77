"""Keeps the end of what an engine's process says on its standard error, so that a start that fails says why."""

import asyncio

_CHARS_MAX = 4000
_PATIENCE_S = 2.0


class LastWords:
    """What one process said last."""

    def __init__(self) -> None:
        self._text = ""
        self._listener: asyncio.Task[None] | None = None

    def listen(self, stream: asyncio.StreamReader | None) -> None:
        """Hear a process out, from its start on."""
        assert stream is not None, "a process whose standard error is a pipe"
        self._listener = asyncio.create_task(self._keep(stream))

    async def heard(self) -> None:
        """Wait for the last of it, but not long: a process can close its connection and still not end."""
        if self._listener is not None:
            await asyncio.wait({self._listener}, timeout=_PATIENCE_S)

    def after(self, what: str) -> str:
        """Return what happened, with what was said before it."""
        said = " | ".join(line for line in self._text.splitlines() if line.strip())
        return f"{what}; it said: {said}" if said else what

    async def _keep(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(4096):
            self._text = (self._text + chunk.decode(errors="replace"))[-_CHARS_MAX:]
