"""What a simulated control knows of its workers, and the homes that the production `routing` plans from it."""

from collections.abc import Mapping

from hotset.core.fleet import DEFAULT_POOL, Heartbeat, WorkerEntry, WorkerFacts
from hotset.core.ids import EngineName, WorkerId
from hotset.core.versions import VersionRecord
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.installation import BASE
from hotset.routing.homes import plan_homes
from hotset.routing.placements import HomesSettings, HomeWorker, Plan, Wanted, published
from hotset.sim.world import World

#: A run lasts half a minute: homes stand for seconds here, where they stand for minutes in a real fleet.
_SETTINGS = HomesSettings(
    smoothing_s=1.0, grow_after_s=1.0, shrink_after_s=4.0, swap_after_s=3.0, moves_per_minute=240.0
)
#: A worker that is not heard for so long is held for lost.
_LOST_AFTER_S = 3.0


def newer(heartbeat: Heartbeat, last: Heartbeat | None) -> bool:
    """Whether a heartbeat is neither late nor repeated."""
    return last is None or (heartbeat.fence, heartbeat.number) > (last.fence, last.number)


class VirtualHomes:
    """Heartbeats in, workers and homes of the next snapshot out."""

    def __init__(self, world: World, shapes: Mapping[WorkerId, WorkerShape]) -> None:
        self._world = world
        self._facts = {worker: _facts(worker, shape) for worker, shape in shapes.items()}
        self._heartbeats: dict[WorkerId, Heartbeat] = {}
        self._heard_at_s: dict[WorkerId, float] = {}
        self._plan = Plan()
        self.workers: dict[WorkerId, WorkerEntry] = {}
        self.homes: dict[EngineName, tuple[WorkerId, ...]] = {}

    def heard(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat, unless it is late."""
        if newer(heartbeat, self._heartbeats.get(heartbeat.worker)):
            self._heartbeats[heartbeat.worker] = heartbeat
            self._heard_at_s[heartbeat.worker] = self._world.now_s

    def resume(self) -> None:
        """Hold no worker for lost because control itself was down."""
        self._heard_at_s = dict.fromkeys(self._heard_at_s, self._world.now_s)

    def plan(self, serving: Mapping[EngineName, VersionRecord]) -> bool:
        """Plan anew; whether workers or homes changed."""
        before = self.workers, self.homes
        now_s = self._world.now_s
        live = [worker for worker, at_s in sorted(self._heard_at_s.items()) if now_s - at_s < _LOST_AFTER_S]
        self.workers = {
            worker: WorkerEntry(facts=self._facts[worker], fence=self._heartbeats[worker].fence) for worker in live
        }
        able = [self._home_worker(worker) for worker in live if self._heartbeats[worker].is_ready]
        self._plan, _ = plan_homes(self._plan, self._wanted(serving), able, now_s=now_s, settings=_SETTINGS)
        self.homes = published(self._plan)
        return before != (self.workers, self.homes)

    def _wanted(self, serving: Mapping[EngineName, VersionRecord]) -> list[Wanted]:
        in_flight: dict[EngineName, int] = {}
        held: set[EngineName] = set()
        for heartbeat in self._heartbeats.values():
            for name, count in heartbeat.in_flight.items():
                in_flight[name] = in_flight.get(name, 0) + count
            held.update((*heartbeat.resident, *heartbeat.loading, *heartbeat.warm))
        return [
            Wanted(
                pool=DEFAULT_POOL,
                version=name,
                base=BASE,
                rank=record.manifest.rank_max,
                num_in_flight=in_flight.get(name, 0),
                is_cold=name not in held,
            )
            for name, record in serving.items()
        ]

    def _home_worker(self, worker: WorkerId) -> HomeWorker:
        facts = self._facts[worker]
        return HomeWorker(
            worker=worker,
            base=facts.base,
            pool=DEFAULT_POOL,
            rank_class=facts.rank_class,
            num_slots=facts.num_slots,
            num_sequences_max=facts.num_sequences_max,
        )


def _facts(worker: WorkerId, shape: WorkerShape) -> WorkerFacts:
    return WorkerFacts(
        worker=worker,
        base=BASE,
        rank_class=shape.rank_class,
        num_slots=shape.num_slots,
        hardware_class="simulated",
        engine="simulated",
        num_sequences_max=shape.sequences_max,
    )
