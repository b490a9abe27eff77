"""Long work told as JSON lines: progress events, then one result or one error. The work outlives its listener."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from hotset.control.endpoints import Reply
from hotset.control.problems import problem_of
from hotset.control.progress import Progress, Report
from hotset.core.errors import HotsetError

_log = logging.getLogger(__name__)

NDJSON_TYPE = "application/x-ndjson"
#: Progress beyond this many unread events is dropped; results and errors never are.
_NUM_UNREAD_MAX = 1000

Work = Callable[[Report], Awaitable[Reply]]


class Listening:
    """Runs long work and lets a client listen; work whose client left goes on to its end."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def lines(self, work: Work) -> AsyncIterator[bytes]:
        """Start the work; return its events as JSON lines."""
        events: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.create_task(_tell(work, events, asyncio.get_running_loop()))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return _drain(events)

    async def finish(self) -> None:
        """Wait until all work has ended."""
        await asyncio.gather(*self._running, return_exceptions=True)


async def _drain(events: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (line := await events.get()) is not None:
        yield line


async def _tell(work: Work, events: asyncio.Queue[bytes | None], loop: asyncio.AbstractEventLoop) -> None:
    def put(progress: Progress) -> None:
        if events.qsize() < _NUM_UNREAD_MAX:
            events.put_nowait(_line({"event": "progress", **_fields(progress)}))

    def report(progress: Progress) -> None:
        loop.call_soon_threadsafe(put, progress)

    try:
        reply = await work(report)
        result = None if reply.answer is None else reply.answer.model_dump(mode="json")
        # Reports from the worker thread are queued as callbacks; let those come out first.
        await asyncio.sleep(0)
        events.put_nowait(_line({"event": "result", "result": result}))
    except HotsetError as error:
        events.put_nowait(_line({"event": "error", "problem": problem_of(error)}))
    except Exception:  # noqa: BLE001 - the outermost loop of the work: nobody else would see it
        _log.exception("long work failed")
        events.put_nowait(_line({"event": "error", "problem": problem_of(HotsetError())}))
    finally:
        events.put_nowait(None)


def _fields(progress: Progress) -> dict[str, object]:
    return {
        "phase": progress.phase,
        "done": progress.done,
        "total": progress.total,
        "unit": progress.unit,
        "subject": progress.subject,
    }


def _line(event: dict[str, object]) -> bytes:
    return msgspec.json.encode(event) + b"\n"
