"""The snapshot that a simulated agent applies, and what it says by it to work that is not its to do."""

from hotset.core.errors import EngineUnavailableError, ModelNotFoundError
from hotset.core.ids import Digest, EngineName, WorkerId, engine_name
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.planner.protocol import Refused, StaleRoute, Submit
from hotset.planner.virtual_life import VirtualLife
from hotset.routing.standing import homes_at, standing_of


class ServedSnapshot:
    """One life's; it begins with none."""

    def __init__(self, worker: WorkerId, base: Digest) -> None:
        self._worker, self._base = worker, base
        self._use(RoutingSnapshot())

    @property
    def epoch(self) -> int:
        """Of the snapshot."""
        return self._snapshot.epoch

    def take(self, snapshot: RoutingSnapshot) -> bool:
        """Take control's word; whether the snapshot is a newer one."""
        is_newer = snapshot.epoch > self.epoch
        if is_newer:
            self._use(snapshot)
        return is_newer

    def permit(self, life: VirtualLife) -> None:
        """Let an engine serve what the snapshot says."""
        homes = homes_at(self._snapshot, self._worker, self._base)
        tenants, is_frozen = self._snapshot.tenants, self._snapshot.is_frozen
        life.permit(self._records, self._standing.quotas, homes=homes, tenants=tenants, is_frozen=is_frozen)

    def answer_against(self, submit: Submit) -> Refused | StaleRoute | None:
        """Return why work is not done here, as `worker.agent` says it; None where it is."""
        work, name = submit.work, engine_name(submit.work.route)
        is_ours = work.route.base == self._base and self._standing.takes(self._snapshot, work.tenant)
        if is_ours and (name is None or name in self._records):
            return None
        if submit.epoch < self.epoch:
            return StaleRoute(work.request_id, self.epoch)
        is_unknown = is_ours and submit.epoch == self.epoch
        return Refused(work.request_id, ModelNotFoundError.code if is_unknown else EngineUnavailableError.code)

    def _use(self, snapshot: RoutingSnapshot) -> None:
        self._snapshot = snapshot
        self._standing = standing_of(snapshot, self._worker, self._base)
        self._records: dict[EngineName, VersionRecord] = {
            name: record for name, record in snapshot.versions.items() if record.base == self._base
        }
