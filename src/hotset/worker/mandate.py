"""What one agent may serve: the newest snapshot's versions of its base, less those that are held back here."""

import asyncio
import contextlib
from collections.abc import Mapping

from hotset.core.errors import EngineUnavailableError, HotsetError, LoadFailedError, ModelNotFoundError, StaleRouteError
from hotset.core.fleet import Suspicion
from hotset.core.ids import Digest, EngineName, TenantId, WorkerId, engine_name
from hotset.core.ports import Work
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.routing.standing import HomeHere, homes_at, standing_of
from hotset.worker.holds import Holds
from hotset.worker.watchdog import Finding


class Mandate:
    """Of one agent, over all its engines."""

    def __init__(self, base: Digest, worker: WorkerId | None, *, first_incident: int) -> None:
        """Begin with a snapshot that permits nothing.

        Args:
            base: What the agent serves.
            worker: As whom it is in a fleet, if it is in one.
            first_incident: Above that of any incident which another start of this agent told of.
        """
        self._base = base
        self._worker = worker
        self._snapshot = RoutingSnapshot()
        self._standing = standing_of(self._snapshot, worker, base)
        self._holds = Holds(first_incident)
        self._applied = asyncio.Event()
        #: The versions that may be loaded.
        self.records: Mapping[EngineName, VersionRecord] = {}

    # --- what changes it -------------------------------------------------------------------------------

    def apply(self, snapshot: RoutingSnapshot) -> bool:
        """Go by this snapshot from now on; return whether it does: one of an older epoch is ignored."""
        if snapshot.epoch < self._snapshot.epoch:
            return False
        self._snapshot = snapshot
        self._applied.set()
        self._holds.keep(snapshot.versions, snapshot.releases)
        self.records = self._permitted()
        self._standing = standing_of(snapshot, self._worker, self._base)
        return True

    def blame(self, finding: Finding) -> None:
        """Hold back from now on what an engine that went wrong may be blamed on."""
        self._holds.blame(finding.suspects, finding.flaw, self._snapshot.releases)
        self.records = self._permitted()

    def confirm(self) -> None:
        """A fresh engine is sound without what is held back."""
        self._holds.confirm()

    def _permitted(self) -> Mapping[EngineName, VersionRecord]:
        versions = self._snapshot.versions.items()
        return {name: r for name, r in versions if r.base == self._base and name not in self._holds}

    # --- what it says ----------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Of the snapshot that is gone by."""
        return self._snapshot.epoch

    @property
    def is_frozen(self) -> bool:
        """Whether nothing may be loaded or evicted."""
        return self._snapshot.is_frozen

    @property
    def quotas(self) -> Mapping[TenantId, Quota]:
        """Of the tenants that are served here."""
        return self._standing.quotas

    @property
    def tenants(self) -> frozenset[TenantId]:
        """Who may call, here or elsewhere."""
        return self._snapshot.tenants

    def homes(self) -> tuple[HomeHere, ...]:
        """Return what is at home here."""
        return homes_at(self._snapshot, self._worker, self._base)

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return the versions that are held back and that control is to hear of."""
        return self._holds.told()

    def adapter_of(self, name: EngineName) -> str:
        """Return a version's ``owner/name``, empty for one that is not served any more."""
        record = self.records.get(name)
        return "" if record is None else str(record.ref.adapter)

    # --- what is asked of it for a request -------------------------------------------------------------

    def covers(self, work: Work, name: EngineName | None) -> bool:
        """Whether it has the work's version, and has this agent serve its tenant."""
        return self._standing.takes(self._snapshot, work.tenant) and (name is None or name in self.records)

    async def reach(self, epoch: int, *, within_s: float) -> None:
        """Return once a snapshot of at least this epoch is applied, or so many seconds later.

        A gateway may have it a moment earlier.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._snapshot.epoch < epoch:
                    self._applied.clear()
                    await self._applied.wait()

    def refusal(self, work: Work) -> HotsetError:
        """Return why work that it does not cover is not done."""
        if work.epoch < self._snapshot.epoch:
            return StaleRouteError(epoch=self._snapshot.epoch)
        if work.epoch > self._snapshot.epoch:
            return EngineUnavailableError("The worker waits for a newer snapshot.")
        if not self._standing.takes(self._snapshot, work.tenant):
            return EngineUnavailableError()
        if engine_name(work.route) in self._holds:
            return LoadFailedError("The engine went wrong after this version was loaded; it is held back.")
        return ModelNotFoundError()
