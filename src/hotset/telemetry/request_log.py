"""The request log: one JSON line a request, and never a word of a prompt or an answer.

It is the base of `explain`, of usage reports and later of the planner. Lines are handed over on the event
loop and written by a thread of this module's own, in batches; files are rotated by size and bounded in number.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from hotset.core.on_call import RequestEntry

_log = logging.getLogger(__name__)

_ENTRIES_WAITING_MAX = 100_000
_BATCH_S = 0.1
_BLOCK_BYTES = 64 * 1024


class RequestLog:
    """Appends entries to ``PATH`` and keeps ``PATH.1`` … ``PATH.N`` as older files.

    Args:
        path: The newest file; its folder is made where it is missing.
        file_bytes_max: Size past which a new file is begun.
        files_max: Files kept, the newest included.
        on_dropped: Told how many entries were lost, on whichever thread lost them.
    """

    def __init__(
        self,
        path: Path,
        *,
        file_bytes_max: int = 64 << 20,
        files_max: int = 8,
        on_dropped: Callable[[int], None] = lambda _: None,
    ) -> None:
        assert file_bytes_max >= 1
        assert files_max >= 1
        self._path = path
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._waiting: deque[RequestEntry] = deque()
        self._wake = threading.Event()
        self._write_lock = threading.Lock()
        self._closed = False
        self._on_dropped = on_dropped
        #: Entries lost because the disk could not keep up or failed.
        self.num_dropped = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _open_whole(path)
        self._size = path.stat().st_size
        self._thread = threading.Thread(target=self._write_batches, name="request-log", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        """The newest file."""
        return self._path

    def append(self, entry: RequestEntry) -> None:
        """Hand an entry to the writer; never waits for the disk."""
        if len(self._waiting) >= _ENTRIES_WAITING_MAX:
            self._drop(1)
            return
        self._waiting.append(entry)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Write what was appended so far; returns when it is in the file."""
        with self._write_lock:
            self._write_waiting()

    def close(self) -> None:
        """Write what is left and end the writer. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self._thread.join()
        self.flush()
        self._file.close()

    def _write_batches(self) -> None:
        pause = threading.Event()
        while not self._closed:
            self._wake.wait()
            if not self._closed:
                pause.wait(_BATCH_S)
            self._wake.clear()
            self.flush()

    def _write_waiting(self) -> None:
        waiting = self._waiting
        while waiting:
            count = min(len(waiting), 1000)
            batch = b"".join(msgspec.json.encode(waiting.popleft()) + b"\n" for _ in range(count))
            try:
                if self._size and self._size + len(batch) > self._file_bytes_max:
                    self._rotate()
                self._file.write(batch)
                self._file.flush()
            except OSError as error:
                self._drop(count)
                _log.error("request log: %d lines lost: %s", count, error)
                return
            self._size += len(batch)

    def _drop(self, count: int) -> None:
        self.num_dropped += count
        self._on_dropped(count)

    def _rotate(self) -> None:
        """Begin a new file; where that fails, the old one is still written to and nothing is shifted twice."""
        if self._path.exists():
            for number in range(self._files_max - 1, 0, -1):
                newer = numbered(self._path, number - 1)
                if newer.exists():
                    newer.replace(numbered(self._path, number))
            if self._files_max == 1:
                self._path.unlink(missing_ok=True)
        newest = self._path.open("ab")
        self._file.close()
        self._file, self._size = newest, 0


def numbered(path: Path, number: int) -> Path:
    """Return the log's n-th newest file: the path itself for 0."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def tail(path: Path, count: int) -> list[RequestEntry]:
    """Return the newest entries of a log, newest first, at most `count`."""
    entries: list[RequestEntry] = []
    if count > 0:
        for entry in newest_first(path):
            entries.append(entry)
            if len(entries) == count:
                break
    return entries


def find(path: Path, request_id: str) -> RequestEntry | None:
    """Return the entry of one request, or None where no kept file holds it."""
    wanted = request_id.encode()
    for line in _lines_newest_first(path):
        if wanted in line:
            entry = _entry(line)
            if entry is not None and entry.request_id == request_id:
                return entry
    return None


def find_in(folder: Path, request_id: str) -> tuple[str | None, RequestEntry] | None:
    """Return the entry of one request from whichever log in a folder holds it, and the name of that log's gateway.

    ``requests.jsonl`` is the log of one process that is all, ``requests-NAME.jsonl`` a gateway's.
    """
    for path in sorted(folder.glob("requests*.jsonl")):
        entry = find(path, request_id)
        if entry is not None:
            return path.stem.removeprefix("requests").removeprefix("-") or None, entry
    return None


def newest_first(path: Path) -> Iterator[RequestEntry]:
    """Yield a log's entries over all its files, newest first; half a line after a crash is passed over."""
    for line in _lines_newest_first(path):
        entry = _entry(line)
        if entry is not None:
            yield entry


def _entry(line: bytes) -> RequestEntry | None:
    try:
        return msgspec.json.decode(line, type=RequestEntry)
    except msgspec.DecodeError:
        return None


def _lines_newest_first(path: Path) -> Iterator[bytes]:
    number = 0
    while (part := numbered(path, number)).exists():
        with part.open("rb") as file:
            yield from _lines_backwards(file)
        number += 1


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    position = file.seek(0, 2)
    rest = b""
    while position > 0:
        step = min(_BLOCK_BYTES, position)
        position -= step
        file.seek(position)
        first, *lines = (file.read(step) + rest).split(b"\n")
        yield from (line for line in reversed(lines) if line)
        rest = first
    if rest:
        yield rest


def _open_whole(path: Path) -> BinaryIO:
    """Open for appending, behind a newline where a crash left half a line."""
    file = path.open("ab+")
    if file.tell() > 0:
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file
