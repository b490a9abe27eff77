"""How far a long command has come, told to whoever asked for it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["hash", "stage", "verify", "store", "start_engine", "load", "score", "generate", "judge"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One report. `total` is 0 where it is not known."""

    phase: Phase
    done: int = 0
    total: int = 0
    #: ``bytes``, ``files``, ``texts``, ``tokens`` or empty.
    unit: str = ""
    subject: str = ""


#: Called from any thread; must return at once.
Report = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Report to nobody."""


class ByteCount:
    """Adds up bytes from several threads and reports about every hundredth part of the whole."""

    def __init__(self, phase: Phase, total: int, report: Report, subject: str = "") -> None:
        self._phase: Phase = phase
        self._total = total
        self._report = report
        self._subject = subject
        self._step = max(1, total // 100)
        self._done = 0
        self._reported = -1
        self._lock = threading.Lock()

    def __call__(self, num_bytes: int) -> None:
        """Count bytes that were just done."""
        with self._lock:
            self._done += num_bytes
            step = self._done // self._step
            if step == self._reported and self._done < self._total:
                return
            self._reported = step
            progress = Progress(self._phase, self._done, self._total, "bytes", self._subject)
        self._report(progress)
