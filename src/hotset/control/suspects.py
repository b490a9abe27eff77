"""What workers' watchdogs hold back becomes a quarantine, of the whole installation, within bounds.

A worker says its suspicions until the snapshot lacks the versions; each is acted upon once. One incident costs at most
`INCIDENT_MAX` versions, and one worker at most `HOUR_MAX` an hour: what is beyond that, or of another base than the
worker's, is told, and left to people. The telling is bounded, too: no worker fills the audit log.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from hotset.control.actors import WATCHDOG
from hotset.control.commits import Commits
from hotset.control.hourly import Hourly
from hotset.control.withholding import Withholding
from hotset.core.clock import Clock
from hotset.core.errors import OperatorError
from hotset.core.fleet import FlawCode, Suspicion
from hotset.core.ids import EngineName, VersionRef, WorkerId
from hotset.core.ports import SuspicionSource

_log = logging.getLogger(__name__)
INCIDENT_MAX = 4
HOUR_MAX = 8
#: Of one worker at a time; an honest one suspects a few at most.
SUSPICIONS_MAX = 64
#: Versions that one row of the audit log names.
_NAMED_MAX = 8
#: How often sources are asked.
_LOOK_S = 0.5
_Key = tuple[str, EngineName, int]


class Suspects:
    """Follows what workers suspect."""

    def __init__(self, commits: Commits, withholding: Withholding, clock: Clock) -> None:
        self._commits = commits
        self._withholding = withholding
        #: Whom to ask.
        self.sources: list[SuspicionSource] = []
        #: What was acted upon and is still being said.
        self._settled: set[_Key] = set()
        #: When versions were quarantined, by worker.
        self._quarantines = Hourly(clock, HOUR_MAX)
        #: When it was written down that a worker is not believed.
        self._rows = Hourly(clock, HOUR_MAX)
        #: How many suspicions of a worker were left and are in no row yet.
        self._unwritten: Counter[str] = Counter()

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
            await self._look_at(worker, suspicions)

    async def _look_at(self, worker: str, suspicions: Sequence[Suspicion]) -> None:
        """Act on what one worker says and did not say before."""
        heeded = suspicions[:SUSPICIONS_MAX]
        left = _Left()
        for suspicion in heeded:
            key = worker, suspicion.version, suspicion.incident
            if key not in self._settled:
                if (ref := await self._settle(worker, suspicion, heeded)) is not None:
                    left.add(ref, suspicion)
                    self._unwritten[worker] += 1
                self._settled.add(key)
        unheeded = {(worker, each.version, each.incident) for each in suspicions[SUSPICIONS_MAX:]} - self._settled
        self._settled |= unheeded
        self._unwritten[worker] += len(unheeded)
        if left.refs or unheeded:
            await self._leave(worker, left)

    async def _settle(self, worker: str, suspicion: Suspicion, others: Sequence[Suspicion]) -> VersionRef | None:
        """Quarantine a version that is routed and still suspected; return it where the worker is not believed."""
        record = self._commits.snapshot.versions.get(suspicion.version)
        if record is None or suspicion.num_releases < self._commits.snapshot.releases.get(suspicion.version, 0):
            return None  # quarantined and perhaps released: the worker is yet to hear of it
        entry = self._commits.snapshot.workers.get(WorkerId(worker))
        is_of_its_base = entry is None or entry.facts.base == record.base  # else it can't have loaded it
        if not is_of_its_base or not self._is_within_bounds(worker, suspicion, others):
            return record.ref
        try:
            await self._withholding.suspect(record.ref, worker, suspicion.flaw)
        except OperatorError as error:  # banned or gone meanwhile
            _log.warning("a suspect was not quarantined", extra={"version": str(record.ref), "reason": error.message})
            return None
        _log.error("a suspect is quarantined", extra={"version": str(record.ref), "reason": suspicion.flaw})
        return None

    def _is_within_bounds(self, worker: str, suspicion: Suspicion, others: Sequence[Suspicion]) -> bool:
        """Whether one more may be quarantined on this worker's word; if so, it is counted."""
        of_incident = [each.version for each in others if each.incident == suspicion.incident]
        if of_incident.index(suspicion.version) >= INCIDENT_MAX:
            return False
        return self._quarantines.is_one_more(worker)

    async def _leave(self, worker: str, left: "_Left") -> None:
        """Write down what is left to people: in one row a look, and so many an hour, with what had none before it."""
        if not self._rows.is_one_more(worker):
            return
        num = self._unwritten[worker]
        _log.critical("a worker suspects more than is believed", extra={"worker": worker, "reason": f"{num} versions"})
        versions = [str(ref) for ref in left.refs]
        details = {"versions": versions, "codes": sorted(left.codes), "num_unnamed": num - len(versions)}
        await self._commits.run(
            WATCHDOG, lambda change: change.audit("watchdog.ignored", f"worker/{worker}", **details)
        )
        del self._unwritten[worker]


class _Left:
    """The first versions that one look left to people of one worker's word."""

    def __init__(self) -> None:
        self.refs: list[VersionRef] = []
        self.codes: set[FlawCode] = set()

    def add(self, ref: VersionRef, suspicion: Suspicion) -> None:
        """Name one more where there is room."""
        if len(self.refs) < _NAMED_MAX:
            self.refs.append(ref)
            self.codes.add(suspicion.flaw)
