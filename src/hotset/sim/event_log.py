"""What happened in a simulated world: a digest of all of it, and the last of it in words."""

import hashlib
from collections import deque

_KEPT = 40


class EventLog:
    """Lines in order. The digest covers every line, so two runs with one digest are the same run."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._last: deque[str] = deque(maxlen=_KEPT)
        #: Events so far; further lines may stand between two of them.
        self.num_events = 0

    def event(self, now_s: float, what: str) -> None:
        """Write down that an event begins."""
        self.num_events += 1
        self._write(f"{self.num_events} {now_s:.6f} {what}")

    def note(self, what: str) -> None:
        """Write down what came of the event."""
        self._write(f"    {what}")

    def last(self) -> tuple[str, ...]:
        """Return the last lines, oldest first."""
        return tuple(self._last)

    def digest(self) -> str:
        """Return the hex SHA-256 of all lines."""
        return self._sha256.hexdigest()

    def _write(self, line: str) -> None:
        self._sha256.update(line.encode() + b"\n")
        self._last.append(line)
