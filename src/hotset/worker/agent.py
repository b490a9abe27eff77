"""The agent of one engine: keeps it alive, applies snapshots, and hands each request to the engine's present life."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.core.base import BaseVersion
from hotset.core.clock import Clock
from hotset.core.errors import (
    DigestMismatchError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
    ModelNotFoundError,
    ShuttingDownError,
    StaleRouteError,
)
from hotset.core.fleet import Heartbeat, Suspicion
from hotset.core.ids import EngineName, RequestId, WorkerId, engine_name
from hotset.core.messages import EngineFacts, Inventory
from hotset.core.on_call import RequestAtWorker
from hotset.core.ports import OnWaiting, Ticket, Work
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.engines.port import Engine
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.routing.standing import homes_at, standing_of
from hotset.telemetry.metrics import Metrics
from hotset.worker.engine_life import EngineLife
from hotset.worker.heartbeats import heartbeat_of
from hotset.worker.holds import Holds
from hotset.worker.local_store import LocalStore
from hotset.worker.metering import SlotMeter, keep_metering
from hotset.worker.recollection import Recollection
from hotset.worker.settings import WorkerSettings
from hotset.worker.starting import Fresh, Starter
from hotset.worker.stocktaking import Stocktaking
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
        self._make_reuse = make_reuse
        self._starter = Starter(settings, sweep)
        self._holds = Holds(int(clock.wall_s()))
        self._make_engine = make_engine
        self._store = store
        self._reviewer_keys = reviewer_keys
        self._check_base = check_base
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._worker = worker
        self._recollection = Recollection(clock, worker)
        self._snapshot = RoutingSnapshot()
        self._standing = standing_of(self._snapshot, worker, base.digest)
        self._records: dict[EngineName, VersionRecord] = {}
        self._life: EngineLife | None = None
        self._stocktaking: Stocktaking | None = None
        self._stopping = False
        self._changed = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._applied = asyncio.Event()
        metrics.measures.bytes.append(lambda: resident_bytes(self._life, self._records))
        metrics.measures.slots.append(lambda: slot_bytes(self._life))
        metrics.measures.waits.append(lambda: waits(self._life, self._records))
        metrics.measures.places.append(lambda: places(base.name, self._life))

    # --- the Agent port --------------------------------------------------------------------------------

    async def submit(self, work: Work, on_waiting: OnWaiting | None = None) -> Ticket:
        """Accept the work once its version is in a slot, or refuse it; see `core.ports.Agent`."""
        if self._stopping:
            raise ShuttingDownError
        life = self._life
        if life is None or work.route.base != self.base.digest:
            raise EngineUnavailableError
        name = engine_name(work.route)
        if not self._is_ours(work, name):
            await self._catch_up(work.epoch)
            if not self._is_ours(work, name):
                raise self._not_ours(work)
            if self._life is not life:
                raise EngineUnavailableError
        try:
            return await life.reception.submit(work, name, on_waiting)
        except HotsetError as error:
            self._recollection.refused(work.request_id, error.code)
            raise

    def _is_ours(self, work: Work, name: EngineName | None) -> bool:
        """Whether the snapshot has the work's version, and has this worker serve its tenant."""
        return self._standing.takes(self._snapshot, work.tenant) and (name is None or name in self._records)

    async def _catch_up(self, epoch: int) -> None:
        """Return once a snapshot of at least this epoch is applied; a gateway may have it a moment earlier."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.snapshot_wait_s):
                while self._snapshot.epoch < epoch:
                    self._applied.clear()
                    await self._applied.wait()

    def _not_ours(self, work: Work) -> HotsetError:
        """Return why work that the snapshot does not send here is not done."""
        if work.epoch < self._snapshot.epoch:
            return StaleRouteError(epoch=self._snapshot.epoch)
        if work.epoch > self._snapshot.epoch:
            return EngineUnavailableError("The worker waits for a newer snapshot.")
        if not self._standing.takes(self._snapshot, work.tenant):
            return EngineUnavailableError()
        if engine_name(work.route) in self._holds:
            return LoadFailedError("The engine went wrong after this version was loaded; it is held back.")
        return ModelNotFoundError()

    def is_ready(self) -> bool:
        """Whether the engine serves."""
        return self._life is not None and not self._stopping

    def model_len_max(self) -> int:
        """Tokens of prompt and answer together; 0 before the engine serves."""
        return self._life.facts.model_len_max if self._life else 0

    # --- the snapshot holder ---------------------------------------------------------------------------

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Serve this snapshot's versions of our base; older epochs are ignored."""
        if snapshot.epoch < self._snapshot.epoch:
            return
        self._snapshot = snapshot
        self._applied.set()
        self._holds.keep(snapshot.versions)
        self._records = self._permitted()
        self._standing = standing_of(snapshot, self._worker, self.base.digest)
        if self._life is not None:
            self._permit(self._life)

    # --- life ------------------------------------------------------------------------------------------

    @property
    def facts(self) -> EngineFacts | None:
        """What the present engine is; None while none serves."""
        return self._life.facts if self._life else None

    def num_leases(self) -> int:
        """Requests that wait or run here."""
        return self._life.num_leases() if self._life else 0

    def view_residency(self) -> tuple[WorkerReport]:
        """Return who holds which slot here; see `core.ports.ResidencyViewer`."""
        inventory = self._stocktaking.report() if self._stocktaking is not None else None
        return (view_worker(self.base.name, self._life, self._clock.monotonic_s(), self._worker, inventory),)

    def recall(self, request: RequestId) -> RequestAtWorker | None:
        """Return what is remembered of a request that was sent here; None where nothing is."""
        return self._recollection.of(request)

    def suspicions(self) -> tuple[Suspicion, ...]:
        """Return the versions that are held back here and that control is to hear of."""
        return self._holds.told()

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
            snapshot_epoch=self._snapshot.epoch,
            is_ready=self.is_ready(),
            is_leaving=self._stopping,
        )

    async def inventory(self) -> Inventory:
        """Return what the engine holds and runs, by its own account.

        Raises:
            EngineUnavailableError: no engine serves.
        """
        if self._life is None:
            raise EngineUnavailableError
        return await self._life.engine.inventory()

    async def run(self) -> None:
        """Keep an engine serving until `stop`; one that is gone is started again, after a pause that grows.

        Nothing but `stop` ends this: an engine's life that ends in an error of our own leaves nothing behind, so the
        next one starts as sound as the first.
        """
        pause_s = self._settings.restart_pause_min_s
        while not self._stopping:
            try:
                await self._serve_once()
            except (EngineUnavailableError, DigestMismatchError, OSError) as error:
                _log.error("engine did not start", extra={"base": self.base.name, "reason": str(error)})
            except Exception:  # noqa: BLE001 - the agent's outermost loop: a dead agent would be a dead end for good
                _log.critical("the agent failed; it starts again", exc_info=True, extra={"base": self.base.name})
            else:
                pause_s = self._settings.restart_pause_min_s
            if not self._stopping:
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, self._settings.restart_pause_max_s)

    async def stop(self) -> None:
        """Take no more work, let what runs finish within `drain_timeout_s`, end the engine."""
        self._stopping = True
        self._changed.set()
        self._stop_asked.set()
        life = self._life
        if life is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_timeout_s):
                await life.drained()
        await life.engine.stop()

    async def wait_ready(self) -> None:
        """Return once the engine serves, or the agent stops."""
        while not self.is_ready() and not self._stopping:
            self._changed.clear()
            await self._changed.wait()

    async def _serve_once(self) -> None:
        """Start a fresh engine and serve with it until it is gone or the agent stops.

        Raises:
            EngineUnavailableError: it did not come up.
            DigestMismatchError: the base's files are not those it was registered with.
            OSError: the local store can't be made.
        """
        # Emptied for each engine: its residency begins with no warm files, so none may be left that it can't know.
        await asyncio.to_thread(self._store.open)
        await asyncio.to_thread(self._check_base)
        engine = self._make_engine()
        fresh = await self._start(engine)
        if fresh is not None:
            self._holds.confirm()
            await self._live(engine, fresh)

    async def _start(self, engine: Engine) -> Fresh | None:
        """Start the engine; None where the agent is stopped before it serves."""
        starting = asyncio.create_task(self._starter.start(engine))
        stopped = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if self._stopping:
                starting.cancel()
                await asyncio.wait({starting})
        try:
            return None if self._stopping else await starting
        finally:
            if self._stopping or starting.exception() is not None:
                await engine.stop()

    async def _live(self, engine: Engine, fresh: Fresh) -> None:
        """Serve with one engine until it is gone, or goes wrong."""
        facts = fresh.facts
        life = EngineLife(
            engine,
            fresh,
            self._store,
            self._reviewer_keys,
            settings=self._settings,
            clock=self._clock,
            metrics=self._metrics,
            reuse=self._make_reuse(),
            recollection=self._recollection,
        )
        self._permit(life)
        self._life, self._stocktaking = life, Stocktaking(engine, self._clock)
        self._changed.set()
        _log.info("engine serves", extra={"base": self.base.name, "engine": facts.engine, "slots": facts.num_slots})
        effects = asyncio.create_task(life.run_effects())
        gone = asyncio.create_task(engine.wait_gone())
        watching = asyncio.create_task(life.watch())
        metering = asyncio.create_task(self._meter(life))
        stocktaking = asyncio.create_task(self._stocktaking.run())
        try:
            await asyncio.wait({effects, gone, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and not gone.done():
                self._blame(watching.result())
        finally:
            self._life = self._stocktaking = None
            tasks = {effects, gone, watching, metering, stocktaking}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await engine.stop()
            life.end()
        if not gone.cancelled() and not self._stopping:
            self._metrics.engine_ended("gone")
            _log.error("engine gone", extra={"base": self.base.name, "reason": gone.result()})
        if not effects.cancelled():
            effects.result()  # our own bug: told loudly by `run`

    def _blame(self, finding: Finding) -> None:
        """Hold back from now on what an engine that went wrong may be blamed on."""
        suspects = [str(self._records[name].ref) for name in finding.suspects if name in self._records]
        reason = f"{finding.flaw}; held back: {', '.join(suspects) or 'nothing'}"
        _log.error("the engine went wrong; it is ended", extra={"base": self.base.name, "reason": reason})
        self._metrics.engine_ended(finding.flaw)
        self._holds.blame(finding.suspects, finding.flaw)
        self._records = self._permitted()

    def _permitted(self) -> dict[EngineName, VersionRecord]:
        """Return the versions of the snapshot that may be loaded here."""
        versions = self._snapshot.versions.items()
        return {name: r for name, r in versions if r.base == self.base.digest and name not in self._holds}

    async def _meter(self, life: EngineLife) -> None:
        """Count what tenants use of one engine, until cancelled."""

        def adapter_of(name: EngineName) -> str:
            record = self._records.get(name)
            return "" if record is None else str(record.ref.adapter)

        meter = SlotMeter(self._metrics.usage, adapter_of)
        await keep_metering(meter, lambda: life.residency.state.slots, life.observer.events, self._clock)

    def _permit(self, life: EngineLife) -> None:
        homes = homes_at(self._snapshot, self._worker, self.base.digest)
        life.permit(self._records, self._standing.quotas, homes=homes, is_frozen=self._snapshot.is_frozen)

    async def _pause(self, seconds: float) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._stopping:
                    await self._changed.wait()
                    self._changed.clear()
