"""The homes that the production `routing` plans in a simulated control, as `control.fleet` has it plan real ones."""

from collections.abc import Mapping, Sequence

from hotset.core.fleet import Heartbeat
from hotset.core.ids import EngineName, WorkerId
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.homes import plan_homes
from hotset.routing.homing import callers_of, home_workers, wanted_of
from hotset.routing.placements import HomesSettings, Plan, published

#: A run lasts half a minute: homes stand for seconds here, where they stand for minutes in a real fleet.
_SETTINGS = HomesSettings(
    smoothing_s=1.0, grow_after_s=1.0, shrink_after_s=4.0, swap_after_s=3.0, moves_per_minute=240.0
)


class VirtualHomes:
    """The plan so far."""

    def __init__(self) -> None:
        self._plan = Plan()
        self.homes: dict[EngineName, tuple[WorkerId, ...]] = {}

    def plan(
        self,
        snapshot: RoutingSnapshot,
        heartbeats: Mapping[WorkerId, Heartbeat],
        able: Sequence[WorkerId],
        now_s: float,
    ) -> bool:
        """Plan anew, unless an operator froze everything; whether homes changed.

        Args:
            snapshot: The newest.
            heartbeats: What each worker said last.
            able: Workers that may be homes.
            now_s: By control's clock.
        """
        if snapshot.is_frozen:
            return False
        before = self.homes
        wanted = wanted_of(snapshot, heartbeats, callers_of(snapshot))
        workers = home_workers(snapshot, able)
        self._plan, _ = plan_homes(self._plan, wanted, workers, now_s=now_s, settings=_SETTINGS)
        self.homes = published(self._plan)
        return before != self.homes
