"""Who holds snapshots in processes of their own: gives each the newest one, and knows who applies which.

A holder that is slow gets the newest snapshot when it is done with the last one, not every one between.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hotset.control.actors import FLEET
from hotset.control.asking import Replies, ask_all
from hotset.control.commits import Change, Commits
from hotset.control.fleet import Fleet
from hotset.control.holder_session import Session
from hotset.control.hourly import Hourly
from hotset.control.until_written import until_written
from hotset.control.usage import UsageCommands
from hotset.core.clock import Clock
from hotset.core.errors import ConflictError
from hotset.core.fleet import Suspicion, WorkerFacts
from hotset.core.ids import WorkerId
from hotset.core.on_call import Unreached
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.usage import UsageBatch
from hotset.links.holder_messages import Ask, BeatNow, Fence, Register, Told, UsageKept
from hotset.links.link import Link
from hotset.links.peers import Peer
from hotset.routing.identity import Claimant, outranks
from hotset.storage.catalogue import Catalogue
from hotset.storage.database import DatabaseFailedError

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: A worker speaks every second; one that was silent for so long shows nothing new.
_SILENT_S = 5.0
#: No copy of a database is so many changes old; who says more lies.
_EPOCHS_LOST_MAX = 1 << 32
#: Alarms an hour about one name, and instances that asked for it and are remembered.
_ALARMS_MAX = 8
_TOLD_MAX = 64
#: Between two looks at what holders apply.
_LOOK_S = 0.05
#: How long a gateway waits to be written down before it is served all the same.
_WRITTEN_S = 1.0


@dataclass(frozen=True, slots=True)
class HolderView:
    """One holder at one moment."""

    peer: Peer
    #: Of the snapshot that it said it applies; 0 before the first.
    epoch: int
    #: Since it registered, in seconds.
    linked_for_s: float
    #: Under which it serves, or served last; 0 for gateways, and for a worker that never did.
    fence: int


class Holders:
    """All of them. Implements `SnapshotHolder` and `ResidencyViewer` of `core` for control."""

    def __init__(
        self,
        fleet: Fleet,
        commits: Commits,
        usage: UsageCommands,
        clock: Clock,
        *,
        on_conflict: Callable[[str], None],
        retry_s: float = 5.0,
    ) -> None:
        """Begin without holders.

        Args:
            fleet: Follows the workers among them, and gives them their fences.
            commits: Where an alarm is written down, and which gateways there are.
            usage: Adds up what tenants used at them.
            clock: Where time comes from.
            on_conflict: Counts, by role, those who ask to be somebody who is there already.
            retry_s: Between two tries to write what a holder said, where the database can't be written.
        """
        self._fleet = fleet
        self._commits = commits
        self._usage = usage
        self._clock = clock
        self._on_conflict = on_conflict
        self._retry_s = retry_s
        self._snapshot = RoutingSnapshot()
        self._sessions: dict[Peer, Session] = {}
        self._writing: set[asyncio.Task[Any]] = set()
        #: The newest instances of each that were refused and told of.
        self._told: dict[Peer, deque[str]] = {}
        self._alarms = Hourly(clock, _ALARMS_MAX)

    # --- what control asks -----------------------------------------------------------------------------

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Give every holder this snapshot; workers first, for what a gateway routes to is then soon known there."""
        num_gateways = sum(peer.role == "gateway" for peer in self._sessions)
        self._snapshot = replace(snapshot, num_gateways=max(1, num_gateways))
        for session in sorted(self._sessions.values(), key=lambda session: session.peer.role == "gateway"):
            session.offer(self._snapshot, self._clock.monotonic_s())

    def view_residency(self) -> Sequence[WorkerReport]:
        """Return what each worker last said of its slots."""
        ordered = sorted(self._sessions.values(), key=lambda session: session.peer.name)
        return [session.report for session in ordered if session.report is not None]

    def suspicions(self) -> dict[str, tuple[Suspicion, ...]]:
        """Return what each worker holds back because its engine went wrong; see `core.ports.SuspicionSource`."""
        sessions = self._sessions.values()
        return {each.peer.name: each.suspicions for each in sessions if each.peer.role == "worker"}

    def lags_s(self) -> dict[str, float]:
        """Return by role for how long the holder that is furthest behind has been so."""
        now_s = self._clock.monotonic_s()
        lags_s = dict[str, float]()
        for session in self._sessions.values():
            lags_s[session.peer.role] = max(lags_s.get(session.peer.role, 0.0), session.lag_s(now_s))
        return lags_s

    def views(self) -> list[HolderView]:
        """Return every holder that is there, by role and name."""
        now_s = self._clock.monotonic_s()
        ordered = sorted(self._sessions.values(), key=lambda session: (session.peer.role, session.peer.name))
        return [HolderView(each.peer, each.epoch, now_s - each.began_s, each.fence) for each in ordered]

    @property
    def snapshot(self) -> RoutingSnapshot:
        """The newest."""
        return self._snapshot

    async def ask(
        self,
        make: Callable[[int], Ask],
        *roles: str,
        timeout_s: float,
        is_enough: Callable[[Iterable[Told]], bool] = lambda _: False,
    ) -> Replies:
        """Ask everybody who is linked, or those of these roles; see `asking.ask_all`."""
        asked = {peer: self._sessions[peer].questions for peer in self._linked(*roles)}
        return await ask_all(asked, make, timeout_s=timeout_s, is_enough=is_enough)

    async def missing(self, *roles: str) -> list[Unreached]:
        """Return who of these roles, or of all, is known and not linked, and which workers say nothing."""
        found: list[Unreached] = []
        known = await self._commits.read(known_holders)
        for peer in known:
            session = self._sessions.get(peer)
            if roles and peer.role not in roles:
                continue
            if session is None:
                found.append(Unreached(peer.role, peer.name, "not linked to control"))
            elif peer.role == "worker" and self._silence_s(session) > _SILENT_S:
                reason = f"silent for {self._silence_s(session):.0f} s; what is shown of it is as old"
                found.append(Unreached(peer.role, peer.name, reason))
        return found

    async def behind(self, *roles: str, patience_s: float) -> list[Unreached]:
        """Return who of these roles does not apply the newest snapshot, once all do or the patience is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._late(*roles):  # noqa: ASYNC110 - rare, and holders need not know who looks
                    await asyncio.sleep(_LOOK_S)
        newest = self._snapshot.epoch
        return [
            Unreached(each.peer.role, each.peer.name, f"applies epoch {each.epoch} of {newest} only")
            for each in self._late(*roles)
        ]

    def _late(self, *roles: str) -> list[Session]:
        sessions = (self._sessions[peer] for peer in self._linked(*roles))
        return [each for each in sessions if each.epoch < self._snapshot.epoch]

    def _linked(self, *roles: str) -> list[Peer]:
        found = (peer for peer in self._sessions if not roles or peer.role in roles)
        return sorted(found, key=lambda peer: (peer.role, peer.name))

    def _silence_s(self, session: Session) -> float:
        return self._clock.monotonic_s() - session.heard_at_s

    # --- what the door brings --------------------------------------------------------------------------

    async def register(self, register: Register, link: Link[Any]) -> Session:
        """Take a holder.

        Of two workers with one name the one that shows the newer fence is who served last, whichever comes first.

        Raises:
            ConflictError: another process is who it wants to be.
        """
        peer = register.me
        fence = await self._believed(register)
        live = self._sessions.get(peer)
        is_other = live is not None and live.instance != register.instance
        if live is not None and not outranks(Claimant(register.instance, fence), live.claimant):
            await self._alarm(peer, register.instance)
            raise ConflictError(f"Another process is {peer}; this one serves nothing.")
        session = self._sessions[peer] = Session(peer, register.instance, link, self._clock.monotonic_s(), fence=fence)
        if live is not None:
            live.link.close("another process shows a newer fence" if is_other else "it has a newer link")
            live.end()
        try:
            if live is not None and is_other:
                await self._alarm(peer, live.instance)
            if peer.role == "gateway":
                await self._remember(session)
        except BaseException:  # nobody would end it: the door does not have it yet
            self.ended(session)
            raise
        return session

    def give_newest(self, session: Session) -> None:
        """Send a new holder the newest snapshot; another gateway changes every gateway's share of tenants' rates."""
        if session.peer.role == "gateway":
            self.apply(self._snapshot)
        else:
            session.offer(self._snapshot, self._clock.monotonic_s())

    async def overtake(self, session: Session, epoch: int) -> None:
        """Number snapshots above one that a holder applies and control never had: its database was an older one's copy.

        Else the holder would pass over whatever control publishes until its numbers came as far.
        """
        if epoch - self._snapshot.epoch > _EPOCHS_LOST_MAX:
            session.link.close("it applies what no control published")
            return

        def act(change: Change) -> None:
            if change.catalogue.epoch() < epoch:
                change.catalogue.pass_epoch(epoch)
                change.catalogue.cuts.repeat(epoch + 1)
                change.audit("epoch.overtake", session.peer, epoch=epoch)

        await self._commits.run(FLEET, act)

    async def facts(self, session: Session, facts: WorkerFacts) -> None:
        """Record what a worker is, and tell it under which fence it serves.

        Raises:
            ConflictError: another agent lives under its identity, or it does not suit the pool it asks for.
            NotFoundError: it asks for a pool that is not there.
        """
        self._fleet.starts_anew(facts.worker, session.fence)
        try:
            async with session.turn:
                fence = await self._until_written(
                    session, lambda: self._fleet.register(facts, held_fence=session.fence)
                )
        except ConflictError:
            known = self._snapshot.workers.get(facts.worker)
            if known is not None and known.fence != session.fence:  # else it does not suit the pool it asks for
                await self._alarm(session.peer, session.instance)
            raise
        if fence is not None:
            session.fence = fence
            session.link.send(Fence(fence))

    def heard(self, session: Session, beat: BeatNow) -> None:
        """Keep what a worker says of itself."""
        session.heartbeat, session.report = beat.heartbeat, beat.report
        session.heard_at_s = self._clock.monotonic_s()
        session.suspicions = beat.suspicions
        if beat.heartbeat.fence > session.fence:
            return  # nobody gave it that one: how it serves is not known before its facts are
        if beat.heartbeat.fence and not self._fleet.report(beat.heartbeat):
            session.link.close("another agent has its identity")

    async def count(self, session: Session, batch: UsageBatch) -> None:
        """Add up what tenants used at a holder, and say that it counts."""
        peer = session.peer
        async with session.turn:  # in order: a later number that counts says that the earlier ones do
            is_new = await self._until_written(session, lambda: self._usage.count(peer.role, peer.name, batch))
        if is_new is None:
            return
        if not is_new:
            _log.info("a batch of usage came again", extra={"reason": f"{peer}, number {batch.number}"})
        session.link.send(UsageKept(batch.stream, batch.number))

    def ended(self, session: Session) -> None:
        """A session's link has ended."""
        session.end()
        if self._sessions.get(session.peer) is session:
            del self._sessions[session.peer]
            if session.peer.role == "gateway":
                self.apply(self._snapshot)
                if session.is_leaving:
                    self._forget(session.peer)
        if session.heartbeat is not None and session.heartbeat.is_leaving:
            self._fleet.left(session.heartbeat.worker, session.fence)

    async def _believed(self, register: Register) -> int:
        """Return the fence that a worker shows, 0 where control never gave it one so high."""
        if not register.fence:
            return 0
        worker = WorkerId(register.me.name)
        known = self._commits.snapshot.workers.get(worker)
        if known is None:  # in no snapshot while it is held for lost
            known = await self._commits.read(lambda catalogue: catalogue.workers.get(worker))
        given = 0 if known is None else known.fence
        if register.fence <= given:
            return register.fence
        _log.error("%s shows fence %d, and control gave it %d last", register.me, register.fence, given)
        return 0

    async def _remember(self, session: Session) -> None:
        """Write down that there is this gateway; where that takes long, it is served meanwhile."""

        def act(change: Change) -> bool:
            change.catalogue.gateways.register(session.peer.name, change.now_s)
            return True

        writing = self._start(self._until_written(session, lambda: self._commits.run(FLEET, act)))
        await asyncio.wait({writing}, timeout=_WRITTEN_S)

    async def _until_written(self, session: Session, write: Callable[[], Awaitable[T]]) -> T | None:
        return await until_written(write, session.link, pause_s=self._retry_s)

    def _forget(self, gateway: Peer) -> None:
        """A gateway ended as it was told to, and has nothing left to say: nobody misses it."""
        self._start(self._commits.run(FLEET, lambda change: change.catalogue.gateways.remove(gateway.name)))

    def _start(self, write: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        writing = asyncio.create_task(write)
        self._writing.add(writing)
        writing.add_done_callback(self._written)
        return writing

    def _written(self, writing: "asyncio.Task[Any]") -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            _log.error("a gateway is not written down as what it is", exc_info=error)

    async def _alarm(self, peer: Peer, instance: str) -> None:
        """Tell once of each process that asks to be another, however often it does, and of so many an hour."""
        told = self._told.setdefault(peer, deque(maxlen=_TOLD_MAX))
        if instance in told or not self._alarms.is_one_more(str(peer)):
            return
        told.append(instance)
        self._on_conflict(peer.role)
        _log.critical("a second process says that it is %s; it serves nothing", peer)
        details = {"instance": instance}
        try:
            await self._commits.run(
                FLEET, lambda change: change.audit("identity.conflict", f"{peer.role}/{peer.name}", **details)
            )
        except DatabaseFailedError as error:  # who is who does not depend on it
            _log.error("an identity conflict is not in the audit log", extra={"reason": str(error)})


def known_holders(catalogue: Catalogue) -> list[Peer]:
    """Return every gateway and worker that did not end for good, linked or not."""
    gateways = [Peer("gateway", name) for name in catalogue.gateways.all()]
    return gateways + [Peer("worker", row.facts.worker) for row in catalogue.workers.all()]
