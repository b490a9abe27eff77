"""Watches one engine: whether its base answers as it did when the engine was fresh, and whether it gets on at all.

It asks after each version's first load, and every so often while there is room. What it finds ends the engine; whom to
blame is said by `trials`. It decides nothing of slots, and never waits in a tenant's place.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hotset.core.errors import ContextLengthExceededError, EngineFailedError, EngineUnavailableError, LoadFailedError
from hotset.core.fleet import FlawCode
from hotset.core.ids import EngineName
from hotset.core.messages import Failed
from hotset.engines.port import Engine
from hotset.telemetry.metrics import Metrics
from hotset.worker.probe import Probe
from hotset.worker.progress import Progress
from hotset.worker.readings import Baseline, Reading
from hotset.worker.trials import Trials

_log = logging.getLogger(__name__)
#: How many times in a row a probe that is due is put off because every place in the engine is taken.
_POSTPONED_MAX = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an engine."""

    flaw: FlawCode
    #: Whom it may be blamed on, the newest first; nobody where nothing was loaded since the base answered well.
    suspects: tuple[EngineName, ...]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a watchdog looks. Durations are seconds."""

    interval_s: float
    #: For how long nothing may come of anything.
    silence_max_s: float
    #: Whether a place in the engine is free.
    has_room: Callable[[], bool]


class Watchdog:
    """Of one engine's life."""

    def __init__(
        self, engine: Engine, baseline: Baseline | None, progress: Progress, rhythm: Rhythm, metrics: Metrics
    ) -> None:
        """Begin; `run` watches.

        Args:
            engine: Started.
            baseline: What it answered then; None asks it nothing.
            progress: Of its requests.
            rhythm: When to look.
            metrics: Where probes are counted.
        """
        self._engine = engine
        self._baseline = baseline
        self._progress = progress
        self._rhythm = rhythm
        self._metrics = metrics
        self._probe = Probe(engine)
        self._trials = Trials()
        self._woken = asyncio.Event()
        self._found: asyncio.Future[Finding] = asyncio.get_running_loop().create_future()

    async def vouch(self, name: EngineName) -> bool:
        """Try a version that is loaded, where it is new to this engine; False where the engine is to end.

        One whose trial has no end, as it is cancelled or the engine does not answer, is new still.

        Raises:
            EngineUnavailableError: the engine is gone.
        """
        if self._baseline is None or not self._trials.begins(name):
            return True
        self._woken.set()
        try:
            is_finite = await self._probe.is_finite(name)
        except (LoadFailedError, ContextLengthExceededError) as error:
            self._metrics.probed("version", "unanswered")
            _log.warning("a version can't be tried", extra={"version": name, "reason": error.message})
            return True
        except (asyncio.CancelledError, EngineUnavailableError):
            self._trials.try_again(name)
            raise
        self._metrics.probed("version", "passed" if is_finite else "failed")
        if not is_finite:
            self._find(Finding("version_not_finite", (name,)))
        return is_finite

    async def run(self, stalled: Awaitable[None]) -> Finding:
        """Watch until something is found.

        Args:
            stalled: Returns once the engine runs requests and brings nothing of them.
        """
        watching = asyncio.ensure_future(stalled), asyncio.ensure_future(self._keep_looking())
        try:
            await asyncio.wait({*watching, self._found}, return_when=asyncio.FIRST_COMPLETED)
            if watching[0].done():
                self._find(Finding("silent", self._trials.suspects()))
            if watching[1].done():
                watching[1].result()  # our own bug, where nothing was found
            return self._found.result()
        finally:
            for each in watching:
                each.cancel()
            await asyncio.wait(watching)

    async def _keep_looking(self) -> None:
        while self._baseline is not None and not self._found.done():
            await self._due()
            await self._look(self._baseline)
        if not self._found.done():
            await asyncio.Event().wait()  # nothing to compare with: whoever waits here waits for others

    async def _due(self) -> None:
        """Return once it is time to ask: at once after a version's first load."""
        for _ in range(_POSTPONED_MAX + 1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rhythm.interval_s):
                    await self._woken.wait()
                break
            if self._rhythm.has_room():
                break
        self._woken.clear()

    async def _look(self, baseline: Baseline) -> None:
        on_trial = self._trials.on_trial()
        try:
            async with asyncio.timeout(self._rhythm.silence_max_s):
                answer = await self._answer()
        except TimeoutError:
            self._unanswered()
            return
        except EngineUnavailableError:  # no answer of one that is gone says anything; one that is not is asked again
            return
        if isinstance(answer, Failed) and answer.code != EngineFailedError.code:
            self._metrics.probed("base", "unanswered")  # such as a queue that is full
            return
        flaw = baseline.flaw(answer)
        self._metrics.probed("base", "passed" if flaw is None else "failed")
        if flaw is None:
            self._trials.passed(on_trial)
        else:
            self._find(Finding(flaw, self._trials.suspects()))

    async def _answer(self) -> Reading | Failed:
        """Ask the base; once more where its step failed, for which a request beside it may be to blame.

        Raises:
            EngineUnavailableError: the engine is gone.
        """
        answer = await self._probe.ask()
        for may_ask_again in (True, False):
            if not isinstance(answer, Failed):
                break
            await self._engine.inventory()
            if may_ask_again and answer.code == EngineFailedError.code:
                answer = await self._probe.ask()
        return answer

    def _unanswered(self) -> None:
        """Tell an engine that is silent from one that is busy with others."""
        is_silent = self._progress.silence_s() >= self._rhythm.silence_max_s
        self._metrics.probed("base", "failed" if is_silent else "unanswered")
        if is_silent:
            self._find(Finding("silent", self._trials.suspects()))

    def _find(self, finding: Finding) -> None:
        if not self._found.done():
            self._found.set_result(finding)
