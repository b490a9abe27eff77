"""A tenant plane with three tenants over a scripted agent, served on a real socket in the test's own event loop."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openai
import uvicorn

from hotset.core.clock import SystemClock
from hotset.core.ids import AdapterId, Alias, BaseName, Digest, KeyId, Route, TenantId, engine_name
from hotset.core.snapshot import AliasEntry, KeyEntry, RoutingSnapshot
from hotset.core.versions import Manifest, VersionRecord
from hotset.gateway.app import TenantApp, build_tenant_app
from hotset.gateway.server import server_config
from hotset.gateway.settings import GatewaySettings
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestEntry, RequestLog, tail
from tests.support.scripted_agent import ScriptedAgent

BASE = Digest("sha256:" + "a" * 64)
ACME, GLOBEX, INITECH = TenantId("acme"), TenantId("globex"), TenantId("initech")
TENANTS = (ACME, GLOBEX, INITECH)


def token_of(tenant: str) -> str:
    """The API key of a tenant of this world."""
    return f"hs_{tenant}_0123456789abcdef"


def key_hash(token: str) -> str:
    """What the snapshot keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def adapter_route(owner: str, name: str, number: int = 1) -> Route:
    """The route to one version; its digest is made of its name."""
    digest = Digest("sha256:" + hashlib.sha256(f"{owner}/{name}@{number}".encode()).hexdigest())
    return Route(BASE, AdapterId(TenantId(owner), name), number, digest)


def alias_entry(alias: str, active: Route | None, *others: Route) -> AliasEntry:
    """What an alias stands for: its active version, and others that a number may name."""
    numbered = {route.number: route for route in (active, *others) if route is not None and route.number}
    adapter = next((route.adapter for route in (active, *others) if route is not None), None)
    return AliasEntry(Alias(alias), active, numbered, BaseName("smol"), adapter, 1_700_000_000.0)


def snapshot_of(
    aliases: Mapping[tuple[str, str], AliasEntry], *, epoch: int = 1, keys: Iterable[str] = TENANTS
) -> RoutingSnapshot:
    """A snapshot with these aliases, one key for each tenant, and every version they name."""
    routes = [
        route
        for entry in aliases.values()
        for route in (entry.active, *entry.numbered.values())
        if route is not None and route.adapter is not None
    ]
    return RoutingSnapshot(
        epoch=epoch,
        keys={key_hash(token_of(name)): KeyEntry(KeyId(f"key-{name}"), TenantId(name)) for name in sorted(keys)},
        tenants=frozenset(TENANTS),
        aliases={(TenantId(tenant), Alias(alias)): entry for (tenant, alias), entry in aliases.items()},
        versions={engine_name(route): _record(route) for route in routes},
        bases={},
    )


def three_tenants(**changes: object) -> RoutingSnapshot:
    """Each tenant with an adapter of its own; acme also with the base, a canary and an alias with a slash."""
    aliases = {
        ("acme", "support"): alias_entry(
            "support", adapter_route("acme", "support", 2), adapter_route("acme", "support", 1)
        ),
        ("acme", "eu/faq"): alias_entry("eu/faq", adapter_route("acme", "faq")),
        ("acme", "smol"): alias_entry("smol", Route(BASE)),
        ("acme", "draft"): alias_entry("draft", None),
        ("globex", "contracts"): alias_entry("contracts", adapter_route("globex", "contracts")),
        ("initech", "tps-reports"): alias_entry("tps-reports", adapter_route("initech", "tps-reports")),
    }
    return snapshot_of(aliases, **changes)  # type: ignore[arg-type]


@dataclass
class PlaneWorld:
    """One tenant plane and everything round it."""

    folder: Path
    settings: GatewaySettings = field(default_factory=GatewaySettings)
    agent: ScriptedAgent = field(default_factory=ScriptedAgent)
    snapshot: RoutingSnapshot = field(default_factory=three_tenants)
    app: TenantApp = field(init=False)
    metrics: Metrics = field(init=False)
    log: RequestLog = field(init=False)
    base_url: str = ""

    def __post_init__(self) -> None:
        clock = SystemClock()
        self.metrics = Metrics(clock)
        self.log = RequestLog(self.folder / "requests.jsonl")
        self.app = build_tenant_app(
            self.settings,
            {BASE: self.agent},
            clock=clock,
            metrics=self.metrics,
            request_log=self.log,
            cache_salt_secret=b"0123456789abcdef",
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
        server = _QuietServer(config)
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
            server.should_exit = True
            await serving
            self.log.close()

    @property
    def port(self) -> int:
        """The port it is served on."""
        return int(self.base_url.rpartition(":")[2])


class _QuietServer(uvicorn.Server):
    """Leaves the test runner's signal handlers alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _record(route: Route) -> VersionRecord:
    assert route.adapter is not None
    return VersionRecord(
        owner=route.adapter.owner,
        name=route.adapter.name,
        number=route.number,
        base=route.base,
        digest=route.digest,
        manifest=Manifest(files=(), modules=(), rank_max=8),
    )
