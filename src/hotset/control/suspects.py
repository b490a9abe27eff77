"""What workers' watchdogs hold back becomes a quarantine, of the whole installation, within bounds.

A worker says its suspicions until the snapshot lacks the versions; each is acted upon once. One incident costs at most
`INCIDENT_MAX` versions, and one worker at most `HOUR_MAX` an hour: what is beyond that, or of another base than the
worker's, is told, and left to people.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from hotset.control.commits import Commits
from hotset.control.withholding import WATCHDOG, Withholding
from hotset.core.clock import Clock
from hotset.core.errors import OperatorError
from hotset.core.fleet import Suspicion
from hotset.core.ids import EngineName, VersionRef, WorkerId
from hotset.core.ports import SuspicionSource

_log = logging.getLogger(__name__)
INCIDENT_MAX = 4
HOUR_MAX = 8
_HOUR_S = 3600.0
#: How often sources are asked.
_LOOK_S = 0.5
_Key = tuple[str, EngineName, int]


class Suspects:
    """Follows what workers suspect."""

    def __init__(self, commits: Commits, withholding: Withholding, clock: Clock) -> None:
        self._commits = commits
        self._withholding = withholding
        self._clock = clock
        #: Whom to ask.
        self.sources: list[SuspicionSource] = []
        #: What was acted upon and is still being said.
        self._settled: set[_Key] = set()
        #: When versions were quarantined, by worker.
        self._times: dict[str, deque[float]] = {}

    async def run(self) -> None:
        """Look until cancelled; an error of ours leaves the workers' own holds as they are."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - control's outermost loop: what is still suspected is said again
                _log.critical("suspicions could not be followed", exc_info=True)
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Act on what is suspected now."""
        said = {worker: each for source in self.sources for worker, each in source.suspicions().items()}
        keys = {(worker, each.version, each.incident) for worker, suspicions in said.items() for each in suspicions}
        self._settled &= keys
        for worker, suspicions in sorted(said.items()):
            for suspicion in suspicions:
                key = worker, suspicion.version, suspicion.incident
                if key not in self._settled:
                    await self._settle(worker, suspicion, suspicions)
                    self._settled.add(key)

    async def _settle(self, worker: str, suspicion: Suspicion, others: Sequence[Suspicion]) -> None:
        record = self._commits.snapshot.versions.get(suspicion.version)
        if record is None:
            return
        entry = self._commits.snapshot.workers.get(WorkerId(worker))
        is_of_its_base = entry is None or entry.facts.base == record.base  # else it can't have loaded it
        if not is_of_its_base or not self._is_within_bounds(worker, suspicion, others):
            await self._leave(worker, record.ref, suspicion)
            return
        try:
            await self._withholding.suspect(record.ref, worker, suspicion.flaw)
        except OperatorError as error:  # banned or gone meanwhile
            _log.warning("a suspect was not quarantined", extra={"version": str(record.ref), "reason": error.message})
            return
        _log.error("a suspect is quarantined", extra={"version": str(record.ref), "reason": suspicion.flaw})

    def _is_within_bounds(self, worker: str, suspicion: Suspicion, others: Sequence[Suspicion]) -> bool:
        """Whether one more may be quarantined on this worker's word; if so, it is counted."""
        now_s = self._clock.monotonic_s()
        times = self._times.setdefault(worker, deque())
        while times and now_s - times[0] > _HOUR_S:
            times.popleft()
        of_incident = [each.version for each in others if each.incident == suspicion.incident]
        if len(times) >= HOUR_MAX or of_incident.index(suspicion.version) >= INCIDENT_MAX:
            return False
        times.append(now_s)
        return True

    async def _leave(self, worker: str, ref: VersionRef, suspicion: Suspicion) -> None:
        _log.critical("a worker suspects more than is believed", extra={"version": str(ref), "reason": worker})
        details = {"worker": worker, "code": suspicion.flaw}
        await self._commits.run(WATCHDOG, lambda change: change.audit("watchdog.ignored", ref, **details))
