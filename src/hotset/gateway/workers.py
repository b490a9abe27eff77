"""The workers that a gateway in a process of its own knows: a link to each, and the choice among them.

The choice is `routing.pick`'s. A worker that can't be reached, or ends, before it accepted is passed over for the next
best one; nothing of the answer was sent then. Whatever else a worker says is final.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection

import msgspec

from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, HotsetError, ShuttingDownError
from hotset.core.fleet import WorkerEntry
from hotset.core.ids import Digest, WorkerId
from hotset.core.ports import OnWaiting, Ticket, Work
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.address import TlsFiles
from hotset.links.peers import Peer
from hotset.links.remote_agent import RemoteAgent
from hotset.routing.pick import Sight, pick

_log = logging.getLogger(__name__)
#: Workers that one request is offered to at most.
_NUM_OFFERS_MAX = 3
_LETTING_GO_S = 0.5


class RemoteWorkers:
    """Links to the workers of the newest snapshot; a `SnapshotHolder`."""

    def __init__(self, me: Peer, clock: Clock, tls: TlsFiles | None = None) -> None:
        self._me = me
        self._clock = clock
        self._tls = tls
        self._snapshot = RoutingSnapshot()
        self._workers: dict[WorkerId, RemoteAgent] = {}
        self._tasks: dict[RemoteAgent, asyncio.Task[None]] = {}
        self._letting_go: set[asyncio.Task[None]] = set()
        #: By base version's digest; the gateway looks agents up here.
        self.agents: dict[Digest, WorkersOfBase] = {}

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Link to the snapshot's workers, and let go of those that are not in it; older epochs are ignored."""
        if snapshot.epoch < self._snapshot.epoch:
            return
        self._snapshot = snapshot
        for worker in [worker for worker in self._workers if worker not in snapshot.workers]:
            self._let_go(worker)
        for worker, entry in snapshot.workers.items():
            self._take(worker, entry)
        for digest in snapshot.bases:
            self.agents.setdefault(digest, WorkersOfBase(self, digest, self._clock))

    async def stop(self) -> None:
        """End every link."""
        tasks = [*self._tasks.values(), *self._letting_go]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def of_base(self, base: Digest) -> list[RemoteAgent]:
        """Return the workers that serve a base."""
        return [agent for agent in self._workers.values() if agent.entry.facts.base == base]

    def best(self, work: Work, passed_over: Collection[WorkerId]) -> RemoteAgent | None:
        """Return the worker that the work is to be offered to next; None where no other serves it.

        Args:
            work: What is offered.
            passed_over: Workers that did not take it. The version goes on to the home that it would have without them.
        """
        now_s = self._clock.monotonic_s()
        sights = {
            worker: Sight(heartbeat, now_s - agent.heard_at_s, agent.num_sent)
            for worker, agent in self._workers.items()
            if worker not in passed_over and (heartbeat := agent.heartbeat) is not None
        }
        return next((self._workers[worker] for worker in pick(self._snapshot, work.tenant, work.route, sights)), None)

    def _take(self, worker: WorkerId, entry: WorkerEntry) -> None:
        known = self._workers.get(worker)
        if known is not None and _place(known.entry) == _place(entry):
            known.update(entry)
            return
        if known is not None:
            self._let_go(worker)
        agent = self._workers[worker] = RemoteAgent(entry, me=self._me, clock=self._clock, tls=self._tls)
        task = self._tasks[agent] = asyncio.create_task(agent.run(), name=f"link to worker {worker}")
        task.add_done_callback(_report_end)

    def _let_go(self, worker: WorkerId) -> None:
        task = asyncio.create_task(self._finish(self._workers.pop(worker)))
        self._letting_go.add(task)
        task.add_done_callback(self._letting_go.discard)

    async def _finish(self, agent: RemoteAgent) -> None:
        """Keep the link while requests run on it."""
        task = self._tasks.pop(agent)
        try:
            while agent.num_open():  # noqa: ASYNC110 - rare, and the hot path should not have to tell
                await asyncio.sleep(_LETTING_GO_S)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


class WorkersOfBase:
    """All workers of one base as one agent: implements `core.ports.Agent`."""

    def __init__(self, workers: RemoteWorkers, base: Digest, clock: Clock) -> None:
        self._workers = workers
        self._base = base
        self._clock = clock

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> Ticket:
        """Offer the work to the best worker, and where that can't be reached to the next best ones."""
        refused: HotsetError = EngineUnavailableError("No worker takes this request now.")
        began_s = self._clock.monotonic_s()
        passed_over: set[WorkerId] = set()
        while len(passed_over) < _NUM_OFFERS_MAX and (agent := self._workers.best(work, passed_over)) is not None:
            try:
                return await agent.submit(self._left(work, began_s), on_waiting)
            except (EngineUnavailableError, ShuttingDownError) as error:
                _log.info("passed over worker %s: %s", agent.entry.facts.worker, error.message)
                passed_over.add(agent.entry.facts.worker)
                refused = EngineUnavailableError(error.message)
        raise refused

    def is_ready(self) -> bool:
        """Whether any of them takes work."""
        return any(agent.is_ready() for agent in self._workers.of_base(self._base))

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together that each of them takes; 0 where there is none."""
        return min((agent.model_len_max() for agent in self._workers.of_base(self._base)), default=0)

    def _left(self, work: Work, began_s: float) -> Work:
        """Return the work with what is left of its budget."""
        spent_ms = int((self._clock.monotonic_s() - began_s) * 1000)
        if work.budget_ms is None or not spent_ms:
            return work
        return msgspec.structs.replace(work, budget_ms=max(1, work.budget_ms - spent_ms))


def _place(entry: WorkerEntry) -> tuple[str, Digest]:
    return entry.facts.address, entry.facts.base


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("%s ended by itself", task.get_name(), exc_info=error)
