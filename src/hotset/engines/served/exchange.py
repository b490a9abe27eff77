"""One generation over HTTP: sent on a task, its answer's pieces read as they arrive."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from hotset.core.errors import EngineFailedError, EngineUnavailableError
from hotset.core.messages import EngineEvent, Failed, Finished, Generate
from hotset.engines.served.chunks import ChunkReader
from hotset.engines.served.dialects import failure_of, words_of
from hotset.engines.served.http_client import HttpClient
from hotset.engines.served.request_body import body_of, path_of
from hotset.engines.served.sse import SseSplitter

_log = logging.getLogger(__name__)
_OK = 200
_REFUSAL_BYTES_MAX = 1 << 16


class GenerateExchange:
    """Pushes each event once; the last one is a `Finished` or a `Failed`, unless it was ended before."""

    def __init__(self, client: HttpClient, request: Generate, model: str, push: Callable[[EngineEvent], None]) -> None:
        """Send the request.

        Args:
            client: Connections to the engine.
            request: What is asked for.
            model: What the engine calls the version, or the base.
            push: Told each event, in order.
        """
        self.engine_name = request.engine_name
        self._request = request
        self._push = push
        self._splitter = SseSplitter()
        num_prompts = 1 if request.messages is not None else len(request.prompts or ())
        self._reader = ChunkReader(request.request_id, num_prompts=num_prompts, num_samples=request.n)
        self._refusal = bytearray()
        self._has_ended = False
        self.task = asyncio.create_task(self._run(client, model), name=f"generate {request.request_id}")

    async def end(self) -> None:
        """Close its connection, whatever is under way; no event follows."""
        self._has_ended = True
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    def break_off(self) -> None:
        """End it because the engine is gone."""
        self._tell(Failed(self._request.request_id, EngineFailedError.code, "the engine is gone"))
        self.task.cancel()

    async def _run(self, client: HttpClient, model: str) -> None:
        request = self._request
        try:
            status = await client.exchange("POST", path_of(request), body_of(request, model), self._receive)
            if status != _OK:
                refusal = bytes(self._refusal)
                _log.error("an engine refused a request", extra={"status": status, "reason": words_of(refusal)})
                self._tell(failure_of(request.request_id, status, refusal))
        except (EngineUnavailableError, EngineFailedError) as error:
            _log.error("an engine broke off an answer", extra={"reason": error.message})
        finally:  # whatever went wrong, its reader hears an end
            self._tell(Failed(request.request_id, EngineFailedError.code, "the engine broke off the answer"))

    def _receive(self, status: int, piece: bytes) -> None:
        if status == _OK:
            for event in self._reader.read(self._splitter.feed(piece)):
                self._tell(event)
        elif len(self._refusal) < _REFUSAL_BYTES_MAX:
            self._refusal += piece

    def _tell(self, event: EngineEvent) -> None:
        """Push an event, unless the last one was pushed."""
        if not self._has_ended:
            self._has_ended = isinstance(event, Finished | Failed)
            self._push(event)
