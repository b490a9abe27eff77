"""What a simulated gateway knows of the workers of its snapshot: the last word of each, as it comes on its link."""

from collections.abc import Iterable
from dataclasses import dataclass

from hotset.core.ids import WorkerId
from hotset.planner.exchanges import Exchange
from hotset.planner.held_snapshot import HeldSnapshot
from hotset.planner.protocol import Beat
from hotset.routing.pick import Sight
from hotset.sim.clocks import SkewedClock
from hotset.sim.network import Address


@dataclass(frozen=True, slots=True)
class _Heard:
    """A worker's last word, from which agent it came, and when by the gateway's clock."""

    agent: Address
    beat: Beat
    at_s: float

    @property
    def number(self) -> tuple[int, int]:
        """Grows with each word of one agent."""
        return self.beat.life, self.beat.heartbeat.number


class WorkerSights:
    """Of one life of a gateway."""

    def __init__(self, clock: SkewedClock, held: HeldSnapshot) -> None:
        self._clock, self._held = clock, held
        self._heard: dict[WorkerId, _Heard] = {}

    def beat(self, agent: Address, beat: Beat) -> None:
        """Take a worker's word for how it is, if it is who the snapshot names, and the word is neither late nor old."""
        worker = beat.heartbeat.worker
        entry, last = self._held.snapshot.workers.get(worker), self._heard.get(worker)
        if entry is None or entry.facts.address != agent or beat.heartbeat.fence < entry.fence:
            return
        heard = _Heard(agent, beat, self._clock.monotonic_s())
        if last is None or last.agent != agent or last.number < heard.number:
            self._heard[worker] = heard

    def snapshot_changed(self) -> None:
        """Let go of workers that are lost, and of agents that another one has outranked."""
        workers = self._held.snapshot.workers
        self._heard = {
            worker: heard
            for worker, heard in self._heard.items()
            if worker in workers and workers[worker].fence <= heard.beat.heartbeat.fence
        }

    def sights(self, exchanges: Iterable[Exchange]) -> dict[WorkerId, Sight]:
        """Return what is known of each worker.

        Args:
            exchanges: The gateway's requests.
        """
        now_s, sent = self._clock.monotonic_s(), [(each.agent, each.submitted_at_s) for each in exchanges]
        return {
            worker: Sight(
                heard.beat.heartbeat,
                now_s - heard.at_s,
                sum(agent == heard.agent and at_s >= heard.at_s for agent, at_s in sent),
            )
            for worker, heard in self._heard.items()
        }
