"""The agent of one engine: applies snapshots, hands each request to the engine's present life, and says how it is."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.base import BaseVersion
from hotset.core.clock import Clock
from hotset.core.errors import EngineUnavailableError, HotsetError, ShuttingDownError
from hotset.core.fleet import Heartbeat, Suspicion
from hotset.core.ids import RequestId, WorkerId, engine_name
from hotset.core.messages import EngineFacts, Inventory
from hotset.core.on_call import RequestAtWorker
from hotset.core.ports import OnWaiting, Ticket, Work
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.engines.port import Engine
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.telemetry.metrics import Metrics
from hotset.worker.engine_keeper import EngineKeeper
from hotset.worker.engine_life import EngineLife
from hotset.worker.heartbeats import heartbeat_of
from hotset.worker.local_store import LocalStore
from hotset.worker.mandate import Mandate
from hotset.worker.recollection import Recollection
from hotset.worker.settings import WorkerSettings
from hotset.worker.starting import Fresh, Starter
from hotset.worker.sweep import Sweep
from hotset.worker.viewing import places, resident_bytes, slot_bytes, view_worker, waits
from hotset.worker.watchdog import Finding

_log = logging.getLogger(__name__)


class LocalAgent:
    """Implements `core.ports.Agent`, `ResidencyViewer` and `core.snapshot.SnapshotHolder` for one base's engine."""

    def __init__(
        self,
        base: BaseVersion,
        make_engine: Callable[[], Engine],
        store: LocalStore,
        reviewer_keys: Mapping[str, Ed25519PublicKey],
        *,
        check_base: Callable[[], None],
        settings: WorkerSettings,
        clock: Clock,
        metrics: Metrics,
        make_reuse: Callable[[], ReuseModel] = Reuse,
        sweep: Sweep | None = None,
        worker: WorkerId | None = None,
    ) -> None:
        """Prepare an agent; `run` starts it.

        Args:
            base: The base version to serve.
            make_engine: Makes a fresh engine, not yet started; called again after each death.
            store: This worker's local store.
            reviewer_keys: Public keys whose approvals count, by key id; read from disk by this process.
            check_base: Raises `DigestMismatchError` where the base's files are no longer those of its digest;
                called on a thread before each start of an engine.
            settings: Limits and pauses.
            clock: Where time comes from.
            metrics: Where to count.
            make_reuse: Makes what guesses when a version is asked for again, for each life of an engine.
            sweep: Measures how many distinct adapters pay where no setting says so; None measures nothing.
            worker: As whom it is in a fleet, if it is in one.
        """
        self.base = base
        self._make_engine = make_engine
        self._store = store
        self._reviewer_keys = reviewer_keys
        self._check_base = check_base
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._make_reuse = make_reuse
        self._worker = worker
        self._recollection = Recollection(clock, worker)
        self._mandate = Mandate(base.digest, worker, first_incident=int(clock.wall_s()))
        self._keeper = EngineKeeper(
            base.name,
            Starter(settings, sweep),
            make_engine=self._fresh_engine,
            make_life=self._begin_life,
            blame=self._blame,
            settings=settings,
            metrics=metrics,
        )
        metrics.measures.bytes.append(lambda: resident_bytes(self._life, self._mandate.records))
        metrics.measures.slots.append(lambda: slot_bytes(self._life))
        metrics.measures.waits.append(lambda: waits(self._life, self._mandate.records))
        metrics.measures.places.append(lambda: places(base.name, self._life))

    # --- the Agent port --------------------------------------------------------------------------------

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> Ticket:
        """Accept the work once its version is in a slot, or refuse it; see `core.ports.Agent`."""
        if self._keeper.is_stopping:
            raise ShuttingDownError
        life = self._life
        if life is None or work.route.base != self.base.digest:
            raise EngineUnavailableError
        name = engine_name(work.route)
        if not self._mandate.covers(work, name):
            await self._mandate.reach(work.epoch, within_s=self._settings.snapshot_wait_s)
            if not self._mandate.covers(work, name):
                raise self._mandate.refusal(work)
            if self._life is not life:
                raise EngineUnavailableError
        try:
            return await life.reception.submit(work, name, on_waiting)
        except HotsetError as error:
            self._recollection.refused(work.request_id, error.code)
            raise

    def is_ready(self) -> bool:
        """Whether the engine serves."""
        return self._keeper.is_ready()

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together; 0 before the engine serves."""
        return self._life.facts.model_len_max if self._life else 0

    # --- the snapshot holder ---------------------------------------------------------------------------

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Serve this snapshot's versions of our base; older epochs are ignored."""
        if self._mandate.apply(snapshot) and self._life is not None:
            self._permit(self._life)

    # --- what is to be seen of it ----------------------------------------------------------------------

    @property
    def facts(self) -> EngineFacts | None:
        """What the present engine is; None while none serves."""
        return self._life.facts if self._life else None

    @property
    def store_bytes(self) -> int:
        """Bytes of version files that the local store keeps beside those of versions in slots."""
        return self._settings.warm_bytes_max

    def num_leases(self) -> int:
        """Requests that wait or run here."""
        return self._life.num_leases() if self._life else 0

    def view_residency(self) -> tuple[WorkerReport]:
        """Return who holds which slot here; see `core.ports.ResidencyViewer`."""
        return (view_worker(self.base.name, self._life, self._clock.monotonic_s(), self._worker),)

    def recall(self, request: RequestId) -> RequestAtWorker | None:
        """Return what is remembered of a request that was sent here; None where nothing is."""
        return self._recollection.of(request)

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return the versions that are held back here and that control is to hear of."""
        return self._mandate.suspicions()

    def heartbeat(self, worker: WorkerId, *, fence: int, number: int) -> Heartbeat:
        """Return how this worker is now.

        Args:
            worker: As whom it serves.
            fence: Under which it serves.
            number: Of the heartbeat, one more than the last.
        """
        life = self._life
        found = Heartbeat(worker=worker, fence=fence, number=number)
        if life is not None:
            found = heartbeat_of(life, worker)
        return msgspec.structs.replace(
            found,
            fence=fence,
            number=number,
            snapshot_epoch=self._mandate.epoch,
            is_ready=self.is_ready(),
            is_leaving=self._keeper.is_stopping,
        )

    async def inventory(self) -> Inventory:
        """Return what the engine holds and runs, by its own account.

        Raises:
            EngineUnavailableError: no engine serves.
        """
        if self._life is None:
            raise EngineUnavailableError
        return await self._life.engine.inventory()

    # --- its engine's lives ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep an engine serving until `stop`; see `EngineKeeper.run`."""
        await self._keeper.run()

    async def stop(self) -> None:
        """Take no more work, let what runs finish within `drain_timeout_s`, end the engine."""
        await self._keeper.stop()

    async def wait_ready(self) -> None:
        """Return once the engine serves, or the agent stops."""
        await self._keeper.wait_ready()

    @property
    def _life(self) -> EngineLife | None:
        return self._keeper.life

    async def _fresh_engine(self) -> Engine:
        """Return an engine that was not started yet, once the base's files and the local store are as it needs them.

        Raises:
            DigestMismatchError: the base's files are not those it was registered with.
            OSError: the local store can't be made.
        """
        # Emptied for each engine: its residency begins with no warm files, so none may be left that it can't know.
        await asyncio.to_thread(self._store.open)
        await asyncio.to_thread(self._check_base)
        return self._make_engine()

    def _begin_life(self, engine: Engine, fresh: Fresh) -> EngineLife:
        """Return the life of an engine that was found sound, with what it may serve."""
        self._mandate.confirm()
        life = EngineLife(
            engine,
            fresh,
            self._store,
            self._reviewer_keys,
            settings=self._settings,
            clock=self._clock,
            metrics=self._metrics,
            adapter_of=self._mandate.adapter_of,
            reuse=self._make_reuse(),
            recollection=self._recollection,
        )
        self._permit(life)
        return life

    def _permit(self, life: EngineLife) -> None:
        mandate = self._mandate
        life.permit(
            mandate.records,
            mandate.quotas,
            homes=mandate.homes(),
            tenants=mandate.tenants,
            is_frozen=mandate.is_frozen,
        )

    def _blame(self, finding: Finding) -> None:
        """Hold back from now on what an engine that went wrong may be blamed on."""
        records = self._mandate.records
        suspects = [str(records[name].ref) for name in finding.suspects if name in records]
        reason = f"{finding.flaw}; held back: {', '.join(suspects) or 'nothing'}"
        _log.error("the engine went wrong; it is ended", extra={"base": self.base.name, "reason": reason})
        self._metrics.engine_ended(finding.flaw)
        self._mandate.blame(finding)
