"""A tenant plane with three tenants over a scripted agent, served on a real socket in the test's own event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
import uvicorn

from hotset.core.clock import SystemClock
from hotset.core.on_call import RequestEntry
from hotset.core.snapshot import RoutingSnapshot
from hotset.gateway.app import TenantApp, build_tenant_app
from hotset.gateway.jobs.book import JobBook
from hotset.gateway.jobs.settings import JobSettings
from hotset.gateway.jobs.transactions import Transactions
from hotset.gateway.server import server_config
from hotset.gateway.settings import GatewaySettings
from hotset.storage.database import Database
from hotset.storage.sealing import Sealer
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog, tail
from tests.support.scripted_agent import ScriptedAgent
from tests.support.snapshots import ACME, BASE, TENANTS, three_tenants, token_of


@dataclass
class PlaneWorld:
    """One tenant plane and everything round it."""

    folder: Path
    settings: GatewaySettings = field(default_factory=GatewaySettings)
    agent: ScriptedAgent = field(default_factory=ScriptedAgent)
    snapshot: RoutingSnapshot = field(default_factory=three_tenants)
    #: Jobs are kept in a database beside the log where this is given.
    job_settings: JobSettings | None = None
    jobs: JobBook | None = field(init=False, default=None)
    app: TenantApp = field(init=False)
    metrics: Metrics = field(init=False)
    log: RequestLog = field(init=False)
    base_url: str = ""
    _server: uvicorn.Server | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        clock = SystemClock()
        self.metrics = Metrics(clock)
        self.log = RequestLog(self.folder / "requests.jsonl", on_dropped=self.metrics.log_lines_dropped)
        if self.job_settings is not None:
            self.jobs = open_book(self.folder, self.job_settings, self.metrics)
        self.app = build_tenant_app(
            self.settings,
            {BASE: self.agent},
            clock=clock,
            metrics=self.metrics,
            request_log=self.log,
            cache_salt_secret=b"0123456789abcdef",
            jobs=self.jobs,
        )
        self.app.apply(self.snapshot)

    def client(self, tenant: str = ACME, *, token: str | None = None) -> openai.AsyncOpenAI:
        """The official client with the tenant's key, or with another token."""
        return openai.AsyncOpenAI(base_url=self.base_url + "/v1", api_key=token or token_of(tenant), max_retries=0)

    def entries(self) -> list[RequestEntry]:
        """The request log, newest first."""
        self.log.flush()
        return tail(self.log.path, 10_000)

    @asynccontextmanager
    async def served(self) -> AsyncIterator["PlaneWorld"]:
        """Serve it on a free port until the block ends."""
        config = server_config(self.app, self.settings, host="127.0.0.1", port=0)
        server = self._server = _QuietServer(config)
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started:
                assert not serving.done(), serving
                await asyncio.sleep(0.005)
            port = server.servers[0].sockets[0].getsockname()[1]
            self.base_url = f"http://127.0.0.1:{port}"
            yield self
        finally:
            self.agent.release.set()
            self.agent.may_step.set()
            server.should_exit = True
            await serving
            self.log.close()
            if self.jobs is not None:
                self.jobs.transactions.close()

    @property
    def port(self) -> int:
        """The port it is served on."""
        return int(self.base_url.rpartition(":")[2])

    @property
    def num_connections(self) -> int:
        """Connections that its server has taken and not seen the end of."""
        assert self._server is not None
        return len(self._server.server_state.connections)


def open_book(folder: Path, settings: JobSettings, metrics: Metrics) -> JobBook:
    """A book over a database in this folder, which is made where it is missing and holds the three tenants."""
    database = Database(folder / "hotset.db")
    database.migrate()
    with database.write() as catalogue:
        for tenant in TENANTS:
            if catalogue.tenants.get(tenant) is None:
                catalogue.tenants.add(tenant, 1.0)
    return JobBook(Transactions(database), Sealer([b"0123456789abcdef" * 2]), settings, metrics)


class _QuietServer(uvicorn.Server):
    """Leaves the test runner's signal handlers alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
