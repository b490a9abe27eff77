"""Keeps an engine serving: begins a life, ends it when the engine is gone or goes wrong, and begins the next."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from hotset.core.errors import DigestMismatchError, EngineUnavailableError
from hotset.core.ids import BaseName
from hotset.engines.port import Engine
from hotset.telemetry.metrics import Metrics
from hotset.worker.engine_life import EngineLife
from hotset.worker.settings import WorkerSettings
from hotset.worker.starting import Fresh, Starter
from hotset.worker.watchdog import Finding

_log = logging.getLogger(__name__)


class EngineKeeper:
    """Of one agent."""

    def __init__(
        self,
        base: BaseName,
        starter: Starter,
        *,
        make_engine: Callable[[], Awaitable[Engine]],
        make_life: Callable[[Engine, Fresh], EngineLife],
        blame: Callable[[Finding], None],
        settings: WorkerSettings,
        metrics: Metrics,
    ) -> None:
        """Prepare; `run` starts it.

        Args:
            base: What is served.
            starter: Starts engines.
            make_engine: Makes a fresh engine, not yet started, with all in place that it needs; raises
                `DigestMismatchError` or `OSError` where that can't be.
            make_life: Makes the life of an engine that was found sound.
            blame: Hears what was wrong with an engine, before its life ends.
            settings: Pauses.
            metrics: Where deaths are counted.
        """
        self._base = base
        self._starter = starter
        self._make_engine = make_engine
        self._make_life = make_life
        self._blame = blame
        self._settings = settings
        self._metrics = metrics
        self._changed = asyncio.Event()
        self._stop_asked = asyncio.Event()
        #: Of the engine that serves; None while none does.
        self.life: EngineLife | None = None
        #: Whether no more engine is started.
        self.is_stopping = False

    def is_ready(self) -> bool:
        """Whether the engine serves, and goes on."""
        return self.life is not None and not self.is_stopping

    async def wait_ready(self) -> None:
        """Return once the engine serves, or is to serve no more."""
        while not self.is_ready() and not self.is_stopping:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Keep an engine serving until `stop`; one that is gone is started again, after a pause that grows.

        Nothing but `stop` ends this: an engine's life that ends in an error of our own leaves nothing behind, so the
        next one starts as sound as the first.
        """
        pause_s = self._settings.restart_pause_min_s
        while not self.is_stopping:
            try:
                await self._serve_once()
            except (EngineUnavailableError, DigestMismatchError, OSError) as error:
                _log.error("engine did not start", extra={"base": self._base, "reason": str(error)})
            except Exception:  # noqa: BLE001 - the agent's outermost loop: a dead agent would be a dead end for good
                _log.critical("the agent failed; it starts again", exc_info=True, extra={"base": self._base})
            else:
                pause_s = self._settings.restart_pause_min_s
            if not self.is_stopping:
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, self._settings.restart_pause_max_s)

    async def stop(self) -> None:
        """Start no more engine, let what runs finish within `drain_timeout_s`, end the present one."""
        self.is_stopping = True
        self._changed.set()
        self._stop_asked.set()
        life = self.life
        if life is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_timeout_s):
                await life.drained()
        await life.engine.stop()

    async def _serve_once(self) -> None:
        """Start a fresh engine and serve with it until it is gone or is to stop.

        Raises:
            EngineUnavailableError: it did not come up.
            DigestMismatchError: the base's files are not those it was registered with.
            OSError: what it needs can't be put in place.
        """
        engine = await self._make_engine()
        fresh = await self._start(engine)
        if fresh is not None:
            await self._live(engine, fresh)

    async def _start(self, engine: Engine) -> Fresh | None:
        """Start the engine; None where it is to stop before it serves."""
        starting = asyncio.create_task(self._starter.start(engine))
        stopped = asyncio.create_task(self._stop_asked.wait())
        fresh = None
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not self.is_stopping:
                fresh = await starting
            return fresh
        finally:
            stopped.cancel()
            if fresh is None:  # to stop, or to be cancelled, or it did not come up: nothing of it stays
                starting.cancel()
                await asyncio.wait({starting})
                await engine.stop()

    async def _live(self, engine: Engine, fresh: Fresh) -> None:
        """Serve with one engine until it is gone, or goes wrong."""
        facts = fresh.facts
        life = self.life = self._make_life(engine, fresh)
        self._changed.set()
        _log.info("engine serves", extra={"base": self._base, "engine": facts.engine, "slots": facts.num_slots})
        effects = asyncio.create_task(life.run_effects())
        gone = asyncio.create_task(engine.wait_gone())
        watching = asyncio.create_task(life.watch())
        beside = asyncio.create_task(life.meter()), asyncio.create_task(life.stocktaking.run())
        for task in beside:
            task.add_done_callback(self._ended_beside)
        try:
            await asyncio.wait({effects, gone, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and not gone.done():
                self._blame(watching.result())
        finally:
            self.life = None
            tasks = {effects, gone, watching, *beside}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            try:
                await engine.stop()
            finally:
                life.end()
        if not gone.cancelled() and not self.is_stopping:
            self._metrics.engine_ended("gone")
            _log.error("engine gone", extra={"base": self._base, "reason": gone.result()})
        if not effects.cancelled():
            effects.result()  # our own bug: told loudly by `run`

    def _ended_beside(self, task: asyncio.Task[None]) -> None:
        """Tell of what ended by our own bug though requests go on without it: what it counted stands still."""
        if not task.cancelled() and (error := task.exception()) is not None:
            extra = {"base": self._base, "what": task.get_name()}
            _log.critical("what counts beside an engine failed", exc_info=error, extra=extra)

    async def _pause(self, seconds: float) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_stopping:
                    await self._changed.wait()
                    self._changed.clear()
