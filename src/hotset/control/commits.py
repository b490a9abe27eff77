"""How a command changes the installation: one transaction with its audit entry, then a new snapshot for every holder.

Commands run one at a time. The database work is done in a thread; holders are told on the event loop, in the order of
the epochs, so a holder that is asked next already answers by the new state.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hotset.control.actors import Actor
from hotset.control.snapshots import build_snapshot, read_routing_rows
from hotset.core.clock import Clock
from hotset.core.ports import Withdrawal
from hotset.core.snapshot import RoutingSnapshot, SnapshotHolder
from hotset.storage.catalogue import Catalogue
from hotset.storage.database import Database

T = TypeVar("T")
#: For how long snapshots tell of a cut.
_CUT_TOLD_S = 3600.0


@dataclass(frozen=True, slots=True)
class Change:
    """An open write transaction on behalf of an actor."""

    catalogue: Catalogue
    actor: Actor
    now_s: float
    #: What the new snapshot ends running requests for.
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    #: Actions that were audited or noted; a command without one changed nothing.
    actions: list[str] = field(default_factory=list[str])

    def audit(self, action: str, subject: object, **details: object) -> None:
        """Append what is being done to the audit log, in this transaction."""
        self.actions.append(action)
        self.catalogue.audit.append(self.actor.name, action, str(subject), details, now_s=self.now_s)

    def note(self, action: str) -> None:
        """Say what changed by itself, such as a worker's coming and going: published like any change, but no act."""
        self.actions.append(action)


class Commits:
    """Runs commands against the catalogue and publishes what they lead to."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._holders: list[SnapshotHolder] = []
        self._turn = asyncio.Lock()
        self._snapshot = RoutingSnapshot()

    @property
    def snapshot(self) -> RoutingSnapshot:
        """The newest snapshot that was published."""
        return self._snapshot

    def now_s(self) -> float:
        """Wall-clock seconds, for what is recorded and displayed."""
        return self._clock.wall_s()

    def add_holder(self, holder: SnapshotHolder) -> None:
        """Give this holder the current snapshot, and every later one."""
        self._holders.append(holder)
        holder.apply(self._snapshot)

    async def publish(self) -> RoutingSnapshot:
        """Build the snapshot from what the database holds and give it to every holder (at start)."""
        async with self._turn:
            self._apply(await asyncio.to_thread(self._read_snapshot))
        return self._snapshot

    async def run(self, actor: Actor, act: Callable[[Change], T]) -> T:
        """Carry out `act` in one transaction, then publish the new snapshot.

        Args:
            actor: On whose behalf.
            act: Validates and writes, in a thread; whatever it raises undoes all of it, and so does a snapshot that
                can't be built from what it wrote.
        """
        # Once begun, a command ends whole: a caller that goes away must not leave holders behind the database.
        return await asyncio.shield(asyncio.ensure_future(self._run(actor, act)))

    async def read(self, look: Callable[[Catalogue], T]) -> T:
        """Return what `look` finds in one consistent view of the catalogue."""
        return await asyncio.to_thread(self._read, look)

    async def _run(self, actor: Actor, act: Callable[[Change], T]) -> T:
        async with self._turn:
            result, snapshot = await asyncio.to_thread(self._write, actor, act)
            if snapshot is not self._snapshot:
                self._apply(snapshot)
        return result

    def _write(self, actor: Actor, act: Callable[[Change], T]) -> tuple[T, RoutingSnapshot]:
        with self._database.write() as catalogue:
            change = Change(catalogue, actor, self._clock.wall_s())
            result = act(change)
            if not change.actions:
                return result, self._snapshot
            catalogue.cuts.forget(change.now_s - _CUT_TOLD_S)
            catalogue.cuts.add(catalogue.advance_epoch(), change.withdrawals, change.now_s)
            # Within the transaction: what can't be published is not committed.
            return result, build_snapshot(read_routing_rows(catalogue))

    def _read(self, look: Callable[[Catalogue], T]) -> T:
        with self._database.read() as catalogue:
            return look(catalogue)

    def _read_snapshot(self) -> RoutingSnapshot:
        return build_snapshot(self._read(read_routing_rows))

    def _apply(self, snapshot: RoutingSnapshot) -> None:
        self._snapshot = snapshot
        for holder in self._holders:
            holder.apply(snapshot)
