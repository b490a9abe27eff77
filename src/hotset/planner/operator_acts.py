"""What operators do to a simulated fleet as part of its plan of faults, each act with its undoing after a while."""

from hotset.core.fleet import WorkerState
from hotset.core.ids import TenantId, WorkerId
from hotset.core.ports import Withdrawal
from hotset.planner.installation import Installation
from hotset.planner.virtual_control import VirtualControl
from hotset.sim.faults import Fault


class OperatorActs:
    """Acts on the database; control publishes what came of it, now or when it is back."""

    def __init__(self, installation: Installation, control: VirtualControl) -> None:
        self._installation, self._control = installation, control

    # Each takes a planned act and whether it begins or is undone.

    def freeze(self, fault: Fault, *, begins: bool) -> None:
        """Stop all loads and evictions."""
        self._installation.is_frozen = begins
        self._control.changed()

    def cordon(self, fault: Fault, *, begins: bool) -> None:
        """Have gateways send a worker nothing more."""
        self._put(WorkerId(fault.subject), "cordoned" if begins else "serving")

    def drain(self, fault: Fault, *, begins: bool) -> None:
        """Have a worker take nothing more."""
        self._put(WorkerId(fault.subject), "draining" if begins else "serving")

    def quarantine(self, fault: Fault, *, begins: bool) -> None:
        """Ban the version at this part of all that serve, and cut what runs on it; that is not undone."""
        serving = list(self._installation.serving)
        if begins and serving and self._control.is_up:
            record = self._installation.withdraw(serving[int(fault.size * (len(serving) - 1))])
            self._control.changed(Withdrawal(digest=record.digest))

    def move_tenant(self, fault: Fault, *, begins: bool) -> None:
        """Move a tenant to the other pool, and back."""
        self._installation.arrangement.move_tenant(TenantId(fault.subject))
        self._control.changed()

    def move_worker(self, fault: Fault, *, begins: bool) -> None:
        """Move a worker to the other pool, and back."""
        self._installation.arrangement.move_worker(WorkerId(fault.subject))
        self._control.changed()

    def _put(self, worker: WorkerId, state: WorkerState) -> None:
        self._installation.arrangement.states[worker] = state
        self._control.changed()
