"""The fleet as control sees it: who registered, what each worker last said, who is lost, and the homes that follow.

A reconcile runs every few seconds and is level-triggered: it compares what was heard with what is published, and
publishes only what changed. Control that starts anew takes the workers and homes of the last one for right until they
had time to speak. The plan itself is `routing.homes`, what it is made from `routing.homing`; which of two agents is a
worker is `routing.identity`'s.
"""

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hotset.control.actors import CONTROL
from hotset.control.commits import Change, Commits
from hotset.control.fleet_counts import FleetCounts
from hotset.control.pool_rules import check_suits
from hotset.core.clock import Clock
from hotset.core.errors import ConflictError
from hotset.core.fleet import Heartbeat, WorkerFacts
from hotset.core.ids import EngineName, WorkerId
from hotset.core.snapshot import RoutingSnapshot
from hotset.routing.homes import plan_homes
from hotset.routing.homing import callers_of, gaps_of, home_workers, wanted_of
from hotset.routing.identity import Ruling, rule_on
from hotset.routing.pick import Sight
from hotset.routing.placements import HomesSettings, Move, Plan, published, resumed
from hotset.routing.reserves import ReserveGap

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """How control follows the fleet. Durations are seconds."""

    reconcile_s: float = 2.0
    #: A worker that was silent for so long is lost; one whose engine did not serve for so long is nobody's home.
    lost_after_s: float = 15.0
    homes: HomesSettings = field(default_factory=HomesSettings)


@dataclass(slots=True)
class Heard:
    """What one worker said last, and when, on control's monotonic clock."""

    heartbeat: Heartbeat
    at_s: float
    #: When its engine last served.
    ready_at_s: float | None = None


class Fleet:
    """Follows the workers. All methods are called on the event loop's thread."""

    def __init__(self, commits: Commits, clock: Clock, settings: FollowSettings) -> None:
        self._commits = commits
        self._clock = clock
        self._settings = settings
        self._started_s = clock.monotonic_s()
        self._registering = asyncio.Lock()
        self._plan: Plan | None = None
        #: By worker; only of the agent with the present fence.
        self.heard: dict[WorkerId, Heard] = {}
        #: Those that are held for lost.
        self.lost: frozenset[WorkerId] = frozenset()
        self.counts = FleetCounts()
        #: Reserves that do not hold, now or with one worker lost.
        self.gaps: tuple[ReserveGap, ...] = ()

    async def register(self, facts: WorkerFacts, *, held_fence: int = 0) -> int:
        """Take a worker in, or what is new of it; return the fence under which it serves.

        Args:
            facts: What it says of itself.
            held_fence: The fence that this agent already has; 0 at its first word.

        Raises:
            ConflictError: another agent lives under this identity, or the worker does not suit the pool it asks for.
            NotFoundError: it asks for a pool that is not there.
        """
        async with self._registering:
            try:
                fence = await self._commits.run(CONTROL, lambda change: self._take_in(change, facts, held_fence))
            except ConflictError as error:
                _log.error("a worker was refused", extra={"worker": facts.worker, "reason": error.message})
                raise
            if fence != held_fence or facts.worker not in self.heard:
                now_s = self._clock.monotonic_s()
                first = Heartbeat(worker=facts.worker, fence=fence, number=0, is_ready=True)
                self.heard[facts.worker] = Heard(first, now_s, ready_at_s=now_s)
                _log.info("worker registered", extra={"worker": facts.worker, "fence": fence})
        return fence

    def report(self, heartbeat: Heartbeat) -> bool:
        """Take a worker's word for how it is; whether its fence is the present one. Late and repeated ones pass."""
        entry = self._commits.snapshot.workers.get(heartbeat.worker)
        last = self.heard.get(heartbeat.worker)
        least = max(0 if entry is None else entry.fence, 0 if last is None else last.heartbeat.fence)
        if heartbeat.fence < least:
            return False
        if last is not None and (heartbeat.fence, heartbeat.number) <= (last.heartbeat.fence, last.heartbeat.number):
            return True
        now_s = self._clock.monotonic_s()
        ready_at_s = now_s if heartbeat.is_ready else None if last is None else last.ready_at_s
        self.heard[heartbeat.worker] = Heard(heartbeat, now_s, ready_at_s)
        return True

    def starts_anew(self, worker: WorkerId, fence: int) -> None:
        """An agent comes, or comes back, under the fence that it has: it may count its heartbeats from the start."""
        last = self.heard.get(worker)
        if fence and last is not None and last.heartbeat.fence == fence:
            del self.heard[worker]

    def left(self, worker: WorkerId, fence: int) -> None:
        """An agent is gone for certain, such as by closing its connection: nobody has to wait for its silence."""
        last = self.heard.get(worker)
        if last is not None and last.heartbeat.fence == fence:
            self.heard[worker] = Heard(last.heartbeat, -math.inf)

    async def reconcile(self) -> list[Move]:
        """Bring what is published in line with what was heard; return the moves of homes that were made."""
        await self._mark_lost()
        snapshot, now_s = self._commits.snapshot, self._clock.monotonic_s()
        if not snapshot.workers and not snapshot.homes:
            self._plan = None
            self.counts.published(snapshot, now_s)
            return []
        before = self._plan or resumed(
            snapshot.homes, {worker: entry.pool for worker, entry in snapshot.workers.items()}, now_s
        )
        able = [worker for worker in sorted(snapshot.workers) if self._is_able(worker, now_s)]
        heartbeats = {worker: heard.heartbeat for worker, heard in self.heard.items() if self._lives(worker)}
        plan, moves, gaps = await asyncio.to_thread(self._next, before, snapshot, heartbeats, able, now_s)
        self._plan = plan
        self._tell_gaps(gaps)
        homes = published(plan)
        if homes != snapshot.homes:
            await self._commits.run(CONTROL, lambda change: _write_homes(change, homes))
        self.counts.moved(moves)
        self.counts.published(self._commits.snapshot, now_s)
        return moves

    async def run(self) -> None:
        """Reconcile until cancelled; an error of ours ends no fleet."""
        while True:
            try:
                await self.reconcile()
            except Exception:  # noqa: BLE001 - control's outermost loop: the next round starts from what is published
                _log.critical("a reconcile failed", exc_info=True)
                self._plan = None
            await asyncio.sleep(self._settings.reconcile_s)

    def sights(self) -> dict[WorkerId, Sight]:
        """Return what each worker that is there said last, and how long ago."""
        now_s = self._clock.monotonic_s()
        return {
            worker: Sight(heard.heartbeat, now_s - heard.at_s)
            for worker, heard in self.heard.items()
            if self._lives(worker)
        }

    def _next(
        self,
        before: Plan,
        snapshot: RoutingSnapshot,
        heartbeats: Mapping[WorkerId, Heartbeat],
        able: list[WorkerId],
        now_s: float,
    ) -> tuple[Plan, list[Move], list[ReserveGap]]:
        callers = callers_of(snapshot)
        workers = home_workers(snapshot, able)
        if snapshot.is_frozen:
            return before, [], list(self.gaps)
        wanted = wanted_of(snapshot, heartbeats, callers)
        plan, moves = plan_homes(before, wanted, workers, now_s=now_s, settings=self._settings.homes)
        return plan, moves, gaps_of(snapshot, plan, callers, workers)

    def _take_in(self, change: Change, facts: WorkerFacts, held_fence: int) -> int:
        """Record a registration and return its fence; runs in a transaction, while no other registration does."""
        known = change.catalogue.workers.get(facts.worker)
        # One that was not heard since control started may live all the same, unless it was lost before.
        is_alive = known is not None and not known.is_lost and self._lives(facts.worker)
        ruling = rule_on(held_fence, None if known is None else known.fence, is_alive=is_alive)
        if ruling is Ruling.REFUSED:
            raise ConflictError(f"An agent lives as worker {facts.worker!r} already: this one serves nothing.")
        fence = held_fence if ruling is Ruling.KEEPS else change.catalogue.advance_fence()
        row = change.catalogue.workers.register(facts, fence, change.now_s)
        check_suits(change.catalogue, row, row.pool)
        if known is None or known.is_lost or (known.facts, known.fence) != (facts, fence):
            change.note(f"worker {facts.worker} registered")
        return fence

    async def _mark_lost(self) -> None:
        """Write down who fell silent and who speaks again."""
        began_s = self._clock.monotonic_s()
        rows = await self._commits.read(lambda catalogue: catalogue.workers.all())
        for removed in self.heard.keys() - {row.facts.worker for row in rows}:
            if self.heard[removed].at_s < began_s:  # else it registered meanwhile
                del self.heard[removed]
        changed = {row.facts.worker: not row.is_lost for row in rows if row.is_lost == self._lives(row.facts.worker)}
        was_lost = {row.facts.worker for row in rows if row.is_lost}
        self.lost = frozenset(worker for worker in was_lost if changed.get(worker, True)) | frozenset(
            worker for worker, is_lost in changed.items() if is_lost
        )
        self.counts.num_lost += sum(changed.values())
        if not changed:
            return

        def act(change: Change) -> None:
            for worker, is_lost in changed.items():
                change.catalogue.workers.mark_lost(worker, is_lost=is_lost)
                change.note(f"worker {worker} {'lost' if is_lost else 'back'}")

        await self._commits.run(CONTROL, act)
        for worker, is_lost in changed.items():
            _log.log(
                logging.ERROR if is_lost else logging.INFO,
                "worker lost" if is_lost else "worker back",
                extra={"worker": worker},
            )

    def _lives(self, worker: WorkerId) -> bool:
        """Whether the worker spoke lately, or had no time to since control started."""
        heard = self.heard.get(worker)
        spoke_s = self._started_s if heard is None else heard.at_s
        return self._clock.monotonic_s() - spoke_s < self._settings.lost_after_s

    def _is_able(self, worker: WorkerId, now_s: float) -> bool:
        """Whether the worker may be a home: its engine serves, or did so a moment ago, and it does not leave."""
        heard = self.heard.get(worker)
        if heard is None:
            return self._lives(worker)
        served = heard.ready_at_s is not None and now_s - heard.ready_at_s < self._settings.lost_after_s
        return served and not heard.heartbeat.is_leaving

    def _tell_gaps(self, gaps: list[ReserveGap]) -> None:
        for gap in gaps:
            if gap not in self.gaps:
                _log.warning("a reserve does not hold", extra={"reason": gap.message})
        self.gaps = tuple(gaps)


def _write_homes(change: Change, homes: Mapping[EngineName, tuple[WorkerId, ...]]) -> None:
    change.catalogue.homes.replace(homes)
    change.note("homes moved")
