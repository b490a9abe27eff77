"""Brings an engine up and lets none serve that is not sound: it must answer as the first one did that was fresh."""

import asyncio
import logging
from dataclasses import dataclass

from hotset.admission.profitable import profitable_adapters
from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.messages import EngineFacts
from hotset.engines.port import Engine
from hotset.worker.probe import Probe
from hotset.worker.readings import Baseline
from hotset.worker.settings import WorkerSettings
from hotset.worker.sweep import Sweep

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A started engine, with nothing loaded."""

    facts: EngineFacts
    #: What its base answers; None where no watchdog watches.
    baseline: Baseline | None
    #: Distinct adapters that may be in it at a time; None sets no bound but the slots.
    adapters_max: int | None


class Starter:
    """Starts an agent's engines, one after the other."""

    def __init__(self, settings: WorkerSettings, sweep: Sweep | None) -> None:
        self._settings = settings
        self._sweep = sweep
        #: What the first engine of these facts answered: a later one that answers otherwise, with nothing loaded,
        #: stands on a machine that is sick.
        self._first: tuple[EngineFacts, Baseline] | None = None

    async def start(self, engine: Engine) -> Fresh:
        """Start an engine and measure it.

        Raises:
            EngineUnavailableError: it did not come up, or is not sound; then it is to be stopped.
        """
        facts = await engine.start()
        baseline = await self._measured(engine, facts) if self._settings.watchdog_interval_s else None
        return Fresh(facts, baseline, await self._adapters_max(engine, facts))

    async def _measured(self, engine: Engine, facts: EngineFacts) -> Baseline:
        try:
            async with asyncio.timeout(self._settings.stall_timeout_s):
                baseline = await Probe(engine).baseline()
        except TimeoutError as error:
            raise EngineUnavailableError("the fresh engine answers nothing") from error
        if baseline is None:
            raise EngineUnavailableError("the fresh engine's answers are not sound")
        if self._first is None or self._first[0] != facts:
            self._first = facts, baseline
        flaw = self._first[1].flaw(baseline.reading)
        if flaw is not None:
            raise EngineUnavailableError(f"the fresh engine answers otherwise than the first one did ({flaw})")
        return baseline

    async def _adapters_max(self, engine: Engine, facts: EngineFacts) -> int | None:
        if self._settings.distinct_adapters_max:
            return self._settings.distinct_adapters_max
        if self._sweep is None:
            return None
        try:
            return profitable_adapters(await self._sweep.rates(engine, facts))
        except LoadFailedError as error:
            _log.error("distinct adapters are not measured", extra={"base": facts.base, "reason": str(error)})
            return None
