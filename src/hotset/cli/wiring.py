"""Puts rooms together over one state folder: control with its prover, agents with their engines."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotset.cli.running import report_end
from hotset.cli.settings import Settings
from hotset.control.control import Control
from hotset.control.prover import EngineProver
from hotset.core.base import BaseVersion
from hotset.core.clock import Clock
from hotset.core.errors import DigestMismatchError, VersionRefusedError
from hotset.core.fleet import Suspicion
from hotset.core.ids import BaseName, Digest, RequestId, WorkerId
from hotset.core.on_call import RequestAtWorker
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import RoutingSnapshot
from hotset.engines.making import make_engine
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.jobs.transactions import Transactions
from hotset.storage.base_files import check_base_files
from hotset.storage.blobs import BlobStore
from hotset.storage.database import Database
from hotset.storage.sealing import Sealer
from hotset.storage.state_folder import StateFolder
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import BlobSource, LocalStore
from hotset.worker.sweep import Sweep


class BaseFolders:
    """Where the bases' files lie on this machine: as declared here, else as registered in the state folder."""

    def __init__(self, folder: StateFolder, declared: Mapping[BaseName, Path] | None = None) -> None:
        self._database = Database(folder.database)
        self._is_registered_here = folder.database.exists
        self._declared = declared or {}

    def of(self, base: BaseVersion) -> Path:
        """Return a base's folder.

        Raises:
            DigestMismatchError: nobody says where it is.
        """
        if base.name in self._declared:
            return self._declared[base.name]
        if self._is_registered_here():
            with self._database.read() as catalogue:
                row = catalogue.bases.by_digest(base.digest)
            if row is not None:
                return Path(row.folder)
        raise DigestMismatchError(f"This machine has no folder for base {base.name}; name it under bases: in the file.")

    def check(self, base: BaseVersion) -> None:
        """Hash a base's files where they lie.

        Raises:
            DigestMismatchError: they are not those that it was registered with.
        """
        try:
            check_base_files(base, self.of(base))
        except VersionRefusedError as error:
            raise DigestMismatchError(error.message) from error

    def close(self) -> None:
        """Close the database."""
        self._database.close()


@dataclass(frozen=True)
class AgentParts:
    """What the agents of a process are made of; each has an engine in a process of its own."""

    settings: Settings
    folder: StateFolder
    folders: BaseFolders
    clock: Clock
    metrics: Metrics
    #: Where versions' bytes come from; None: from the trusted store in this folder.
    blobs: BlobSource | None = None

    def agent(
        self,
        base: BaseVersion,
        store: Path,
        reviewer_keys: Mapping[str, Ed25519PublicKey],
        worker: WorkerId | None = None,
    ) -> LocalAgent:
        """Return the agent of one base, with its local store at `store`; `worker` is who it is in a fleet."""
        return LocalAgent(
            base,
            lambda: make_engine(self.settings.engine, base, self.folders.of(base)),
            LocalStore(store, self.blobs or BlobStore(self.folder.blobs)),
            reviewer_keys,
            check_base=lambda: self.folders.check(base),
            settings=self.settings.worker,
            clock=self.clock,
            metrics=self.metrics,
            worker=worker,
            sweep=self._sweep(base),
        )

    def _sweep(self, base: BaseVersion) -> Sweep | None:
        seconds_max = self.settings.worker.distinct_adapters_sweep_s
        folder = self.folder.worker / "sweeps" / base.digest.rpartition(":")[2][:32]
        return Sweep(base, folder, self.clock, seconds_max=seconds_max) if seconds_max > 0 else None


def make_control(settings: Settings, folder: StateFolder, clock: Clock) -> Control:
    """Return control over a state folder; the caller holds its lock. Proofs run in processes of their own."""
    prover = EngineProver(lambda base, path: make_engine(settings.engine.for_proof(), base, path))
    return Control(folder, clock, prover, settings.control)


def make_job_book(settings: Settings, folder: StateFolder, metrics: Metrics) -> JobBook:
    """Return the book of jobs over a state folder whose database is migrated; its transactions are to be closed."""
    transactions = Transactions(Database(folder.database))
    return JobBook(transactions, Sealer(folder.job_keys()), settings.jobs, metrics)


class EnginePool:
    """One agent with its engine for every registered base: a holder that starts what is new, and a viewer of all."""

    def __init__(self, settings: Settings, folder: StateFolder, clock: Clock, metrics: Metrics) -> None:
        self._parts = AgentParts(settings, folder, BaseFolders(folder), clock, metrics)
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

    def recall(self, request: RequestId) -> list[RequestAtWorker]:
        """Return what the agents remember of a request."""
        found = (agent.recall(request) for agent in self.agents.values())
        return [each for each in found if each is not None]

    def suspicions(self) -> dict[str, tuple[Suspicion, ...]]:
        """Return what agents hold back, by base; see `core.ports.SuspicionSource`."""
        return {agent.base.name: agent.suspicions() for agent in self.agents.values()}

    async def wait_ready(self) -> list[str]:
        """Return the bases' names once an engine serves each."""
        agents = list(self.agents.values())
        await asyncio.gather(*(agent.wait_ready() for agent in agents))
        return [agent.base.name for agent in agents]

    async def stop(self) -> None:
        """Drain and end every engine."""
        await asyncio.gather(*(agent.stop() for agent in self.agents.values()))
        await asyncio.gather(*self._runs.values(), return_exceptions=True)
        self._parts.folders.close()

    def _start(self, base: BaseVersion) -> None:
        store = self._parts.folder.worker / base.digest.rpartition(":")[2][:32]
        agent = self.agents[base.digest] = self._parts.agent(base, store, self._reviewer_keys)
        task = asyncio.create_task(agent.run(), name=f"agent of {base.name}")
        task.add_done_callback(report_end)
        self._runs[base.digest] = task
