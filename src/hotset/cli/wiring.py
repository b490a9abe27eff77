"""Puts rooms together over one state folder: control with its prover, agents with their engines."""

import asyncio
import logging
from pathlib import Path

from hotset.cli.settings import Settings
from hotset.control.control import Control
from hotset.control.prover import EngineProver
from hotset.core.base import BaseVersion
from hotset.core.clock import Clock
from hotset.core.errors import DigestMismatchError, VersionRefusedError
from hotset.core.ids import Digest
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.engines.hosted import HostedEngine
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.jobs.transactions import Transactions
from hotset.storage.base_files import check_base_files
from hotset.storage.blobs import BlobStore
from hotset.storage.database import Database
from hotset.storage.sealing import Sealer
from hotset.storage.state_folder import StateFolder
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import LocalStore

_log = logging.getLogger(__name__)


def make_control(settings: Settings, folder: StateFolder, clock: Clock) -> Control:
    """Return control over a state folder; the caller holds its lock. Proofs run in processes of their own."""
    prover = EngineProver(lambda base, path: HostedEngine(settings.engine.proof_spec(base, path)))
    return Control(folder, clock, prover, settings.control)


def make_job_book(settings: Settings, folder: StateFolder, metrics: Metrics) -> JobBook:
    """Return the book of jobs over a state folder whose database is migrated; its transactions are to be closed."""
    transactions = Transactions(Database(folder.database))
    return JobBook(transactions, Sealer(folder.job_keys()), settings.jobs, metrics)


class EnginePool:
    """One agent with its engine for every registered base: a holder that starts what is new, and a viewer of all."""

    def __init__(self, settings: Settings, folder: StateFolder, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._metrics = metrics
        self._database = Database(folder.database)
        self._reviewer_keys = folder.reviewer_keys()
        self._runs: dict[Digest, asyncio.Task[None]] = {}
        #: By base version's digest; the gateway looks agents up here.
        self.agents: dict[Digest, LocalAgent] = {}

    def apply(self, snapshot: RoutingSnapshot) -> None:
        """Start an agent for each base that has none, then give every agent the snapshot."""
        for digest, base in snapshot.bases.items():
            if digest not in self.agents:
                self._start(base)
        for agent in self.agents.values():
            agent.apply(snapshot)

    def view_residency(self) -> list[WorkerReport]:
        """Return who holds which slot of every worker; see `core.ports.ResidencyViewer`."""
        return [worker for agent in self.agents.values() for worker in agent.view_residency()]

    async def wait_ready(self) -> list[str]:
        """Return the bases' names once an engine serves each."""
        agents = list(self.agents.values())
        await asyncio.gather(*(agent.wait_ready() for agent in agents))
        return [agent.base.name for agent in agents]

    async def stop(self) -> None:
        """Drain and end every engine."""
        await asyncio.gather(*(agent.stop() for agent in self.agents.values()))
        await asyncio.gather(*self._runs.values(), return_exceptions=True)
        self._database.close()

    def _start(self, base: BaseVersion) -> None:
        agent = LocalAgent(
            base,
            lambda: HostedEngine(self._settings.engine.spec(base, self._base_folder(base.digest))),
            LocalStore(self._folder.worker / base.digest.rpartition(":")[2][:32], BlobStore(self._folder.blobs)),
            self._reviewer_keys,
            check_base=lambda: self._check_base(base),
            settings=self._settings.worker,
            clock=self._clock,
            metrics=self._metrics,
        )
        self.agents[base.digest] = agent
        task = asyncio.create_task(agent.run(), name=f"agent of {base.name}")
        task.add_done_callback(_report_end)
        self._runs[base.digest] = task

    def _base_folder(self, digest: Digest) -> Path:
        with self._database.read() as catalogue:
            row = catalogue.bases.by_digest(digest)
        assert row is not None, "a base in a snapshot is in the catalogue for ever"
        return Path(row.folder)

    def _check_base(self, base: BaseVersion) -> None:
        try:
            check_base_files(base, self._base_folder(base.digest))
        except VersionRefusedError as error:
            raise DigestMismatchError(error.message) from error


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("%s ended by itself", task.get_name(), exc_info=error)
