"""Implements the Engine port over an engine's own HTTP API and Hotset's plugin in it.

What is loaded is what the plugin says (engine truth), never what was asked for. One engine name and one path stand for
a version; a load never replaces weights in place; nothing is loaded beyond the slots, so the engine evicts nothing by
itself.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from hotset.core.errors import EngineFailedError, EngineUnavailableError, LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    EngineFacts,
    Failed,
    Generate,
    Inventory,
    LoadReport,
    Score,
    StepFacts,
)
from hotset.engines.event_stream import EventStream
from hotset.engines.served.child import EngineChild
from hotset.engines.served.exchange import GenerateExchange
from hotset.engines.served.http_client import HttpClient
from hotset.engines.served.plugin_client import PluginClient
from hotset.engines.served.settings import ServedSettings
from hotset.engines.served.slots import Slots
from hotset.engines.served.starting import await_healthy, take_facts

_GONE = "the engine is gone"
#: Between two tries to abort a request that the engine has not heard of yet.
_ABORT_AGAIN_S = 0.005


class ServedEngine:
    """One engine process and the connections to it. `start` once; after its end it is of no more use."""

    def __init__(self, settings: ServedSettings) -> None:
        self._settings = settings
        self._child = EngineChild(settings.own_command_of or settings.command_of, settings.environment)
        self._client = HttpClient(self._child.socket)
        self._plugin = PluginClient(self._client)
        self._slots = Slots(self._client, self._plugin, settings.dialect, num_slots=settings.num_slots)
        #: Of the requests that have not ended here.
        self._streams: dict[RequestId, EventStream] = {}
        self._exchanges: dict[RequestId, GenerateExchange] = {}
        self._step_watcher: Callable[[StepFacts], None] = lambda _: None
        self._tasks: list[asyncio.Task[None]] = []
        self._has_started = False
        self._gone = asyncio.Event()

    # --- the Engine port -------------------------------------------------------------------------------

    async def start(self) -> EngineFacts:
        """Start the process and return once it serves as it is to.

        Raises:
            EngineUnavailableError: it did not come up, or it is not to be served by; the message says why.
        """
        try:
            await self._child.start()
            self._tasks.append(asyncio.create_task(self._await_end(), name="end of an engine"))
            async with asyncio.timeout(self._settings.start_timeout_s):
                await await_healthy(self._client, self._gone)
                facts = await take_facts(self._client, self._settings, self._child.socket)
        except (TimeoutError, EngineUnavailableError, EngineFailedError) as error:
            await self.stop()
            what = str(error) or "it did not come up in time"
            raise EngineUnavailableError(self._child.last_words.after(f"the engine did not start: {what}")) from error
        except asyncio.CancelledError:
            await self.stop()
            raise
        self._has_started = True
        following = self._plugin.follow_steps(lambda step: self._step_watcher(step))
        self._tasks.append(asyncio.create_task(following, name="steps of an engine"))
        return facts

    async def load(self, load: AdapterLoad) -> LoadReport:
        """Check a version's bytes on disk, then have the engine put it into a free slot.

        There is no bound in time: whoever gives up cancels it, and an inventory says what came of it.
        """
        self._check_here()
        return await self._slots.load(load)

    async def unload(self, name: EngineName) -> None:
        """Have slot, host copy and name taken away, truly."""
        self._check_here()
        if any(self._exchanges[request_id].engine_name == name for request_id in self._streams):
            raise LoadFailedError("a running request uses the version")
        await self._slots.unload(name)

    async def inventory(self) -> Inventory:
        """Return what is loaded and running; a request runs until its stream ended here too."""
        self._check_here()
        state = await self._plugin.state()
        return Inventory(
            loaded=tuple(EngineName(name) for name in state.in_slots()),
            running=tuple(dict.fromkeys((*map(RequestId, state.running), *self._streams))),
            kv_blocks_used=state.kv_blocks_used,
            kv_blocks_total=state.kv_blocks_total,
        )

    def generate(self, request: Generate) -> EventStream:
        """Start a request."""
        stream = EventStream(self, request.request_id)
        if not self._has_started or self._gone.is_set():
            stream.push(Failed(request.request_id, EngineFailedError.code, _GONE))
            return stream
        self._streams[request.request_id] = stream
        model = self._settings.dialect.model_of(self._settings.base_name, request.engine_name)
        exchange = GenerateExchange(self._client, request, model, stream.push)
        self._exchanges[request.request_id] = exchange
        exchange.task.add_done_callback(lambda _: self._exchanges.pop(request.request_id, None))
        return stream

    def watch_steps(self, watcher: Callable[[StepFacts], None]) -> None:
        """Tell a watcher what each step computed."""
        self._step_watcher = watcher

    async def abort(self, request_id: RequestId) -> None:
        """End a request; returns once the engine confirmed that it does not run.

        One that the engine has not heard of may be on its way to it: then it is asked again until it has. Whatever
        becomes of that, the request's connection is closed, which ends it as well.
        """
        exchange = self._exchanges.get(request_id)
        try:
            while True:
                was_running = await self._plugin.abort(request_id)
                if was_running or exchange is None or exchange.task.done():
                    break
                await asyncio.sleep(_ABORT_AGAIN_S)
        finally:
            if exchange is not None:
                await exchange.end()

    async def score(self, score: Score) -> list[list[float]]:
        """Return, for each text, the log-probability of each token after its first."""
        self._check_here()
        return await self._plugin.score(score.engine_name, score.texts)

    async def stop(self) -> None:
        """End the engine's process, gently first."""
        await self._child.end()
        self._lose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._client.close()

    async def wait_gone(self) -> str:
        """Return once the engine is gone, with its last words."""
        await self._gone.wait()
        await self._child.last_words.heard()
        return self._child.last_words.after(_GONE)

    # --- what the owner may also ask -------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The engine's process id, once it started."""
        return self._child.pid

    @property
    def socket(self) -> Path:
        """Where the engine listens, in a folder that is gone after its end."""
        return self._child.socket

    async def checksum(self, name: EngineName) -> str:
        """Return what stands for the tensors in a version's slot.

        Raises:
            LoadFailedError: it is in no slot.
            EngineUnavailableError: the engine is gone.
        """
        self._check_here()
        return await self._plugin.checksum(name)

    def forget(self, request_id: RequestId) -> None:
        """Drop a stream that nobody reads any more."""
        self._streams.pop(request_id, None)

    def _check_here(self) -> None:
        if not self._has_started or self._gone.is_set():
            raise EngineUnavailableError(_GONE)

    async def _await_end(self) -> None:
        await self._child.wait()
        self._lose()

    def _lose(self) -> None:
        """Fail whatever runs: the engine is gone."""
        self._gone.set()
        for exchange in list(self._exchanges.values()):
            exchange.break_off()
