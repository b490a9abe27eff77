"""Who is which worker, as a simulated control knows it; `routing.identity` rules on those who say that they are one.

Fences are in its database; links and what was heard on them are gone when it starts anew, as in `control.holders` and
`control.fleet`. A link is lost where nothing came on it for a while.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from hotset.core.fleet import Heartbeat, WorkerEntry, WorkerFacts
from hotset.core.ids import WorkerId
from hotset.planner.arrangement import Arrangement
from hotset.planner.fleet_rules import FleetRules
from hotset.planner.protocol import Beat, Register
from hotset.routing.identity import Claimant, Ruling, outranks, rule_on
from hotset.sim.network import Address
from hotset.sim.world import World

#: Seconds. A worker that was silent for so long is lost.
LOST_AFTER_S = 2.0
_LINK_LOST_AFTER_S = 1.2


@dataclass(slots=True)
class _Link:
    """One agent's."""

    claimant: Claimant
    heard_at_s: float


class VirtualRoster:
    """Registrations and heartbeats in, the workers of the next snapshot out."""

    def __init__(self, world: World, facts: Mapping[WorkerId, WorkerFacts], rules: FleetRules) -> None:
        """Know nobody yet.

        Args:
            world: Where time comes from; control's own clock is true here.
            facts: What each worker says of itself when it registers, but for its address.
            rules: Told of each fence that is given.
        """
        self._world, self._facts, self._rules = world, facts, rules
        self._num_fences = 0
        self._registered: dict[WorkerId, WorkerEntry] = {}
        self._lost: set[WorkerId] = set()
        self.restart()

    def restart(self) -> None:
        """Forget what is in no database."""
        self._started_s = self._world.now_s
        self._links: dict[WorkerId, _Link] = {}
        self._heard: dict[WorkerId, tuple[Heartbeat, float]] = {}

    def register(self, agent: Address, register: Register) -> int | None:
        """Return the fence under which an agent may serve; None where another one lives under its identity."""
        worker, now_s = register.worker, self._world.now_s
        claimant = Claimant(f"{agent} {register.life}", register.fence)
        link = self._links.get(worker)
        if link is not None and now_s - link.heard_at_s >= _LINK_LOST_AFTER_S:
            link = None
        if link is not None and link.claimant.instance == claimant.instance:
            link.heard_at_s = now_s
            return link.claimant.fence
        if not outranks(claimant, None if link is None else link.claimant):
            return None
        known = self._registered.get(worker)
        is_alive = worker not in self._lost and self._lives(worker)
        ruling = rule_on(register.fence, None if known is None else known.fence, is_alive=is_alive)
        if ruling is Ruling.REFUSED:
            return None
        fence = register.fence if ruling is Ruling.KEEPS else self._next_fence()
        self._rules.granted(worker, agent, fence)
        facts = msgspec.structs.replace(self._facts[worker], address=agent)
        self._registered[worker] = WorkerEntry(facts=facts, fence=fence)
        self._lost.discard(worker)
        self._links[worker] = _Link(Claimant(claimant.instance, fence), now_s)
        self._heard[worker] = Heartbeat(worker=worker, fence=fence, number=0, is_ready=True), now_s
        return fence

    def heard(self, agent: Address, beat: Beat) -> bool:
        """Take an agent's heartbeat; whether there is a link that it may come on."""
        heartbeat, now_s = beat.heartbeat, self._world.now_s
        link = self._links.get(heartbeat.worker)
        if link is None or link.claimant != Claimant(f"{agent} {beat.life}", heartbeat.fence):
            return False
        link.heard_at_s = now_s
        if heartbeat.number > self._heard[heartbeat.worker][0].number:
            self._rules.heard(heartbeat.worker, agent, heartbeat.fence)
            self._heard[heartbeat.worker] = heartbeat, now_s
        return True

    def mark_lost(self) -> None:
        """Write down who fell silent and who speaks again."""
        self._lost = {worker for worker in self._registered if not self._lives(worker)}

    def entries(self, arrangement: Arrangement) -> dict[WorkerId, WorkerEntry]:
        """Return the workers that live, as the next snapshot has them."""
        return {
            worker: arrangement.entry(entry.facts, entry.fence)
            for worker, entry in sorted(self._registered.items())
            if worker not in self._lost
        }

    def heartbeats(self) -> dict[WorkerId, Heartbeat]:
        """Return what each worker said last."""
        return {worker: heartbeat for worker, (heartbeat, _) in self._heard.items()}

    def able(self) -> list[WorkerId]:
        """Return the workers that may be homes; one that control had no time to hear is held for one."""
        live = [worker for worker in sorted(self._registered) if self._lives(worker)]
        return [worker for worker in live if worker not in self._heard or self._heard[worker][0].is_ready]

    def _lives(self, worker: WorkerId) -> bool:
        _, spoke_s = self._heard.get(worker, (None, self._started_s))
        return self._world.now_s - spoke_s < LOST_AFTER_S

    def _next_fence(self) -> int:
        self._num_fences += 1
        return self._num_fences
