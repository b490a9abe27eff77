"""One agent over an instant engine in a process of its own, with versions that are really stored and signed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.core.clock import SystemClock
from hotset.core.ids import Digest, EngineName, KeyId, RequestId, Route, TenantId, WorkerId, engine_name
from hotset.core.messages import Delta, EngineEvent, Generate, Message, ModuleSpec, Sampling
from hotset.core.ports import Ticket, Work
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import FileEntry, Manifest, VersionRecord
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from hotset.registry.approval import reviewer_key_id, sign_approval
from hotset.registry.digests import version_digest
from hotset.storage.blobs import BlobStore
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import LocalStore
from hotset.worker.settings import WorkerSettings
from tests.support.adapters import tiny_base_version
from tests.support.as_read import EngineAsRead

REVIEWER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TENANT = TenantId("acme")


class AgentWorld:
    """Versions ``acme/a@1``, ``acme/b@1`` …; `records` is what the next snapshot says."""

    def __init__(
        self, root: Path, *, num_slots: int = 2, names: str = "abcd", worker: str | None = None, **settings: object
    ) -> None:
        self.root = root
        self.base = tiny_base_version()
        self.blobs = BlobStore(root / "blobs")
        self.engines: list[HostedEngine] = []
        #: Whether a request runs until its answer is read; else until the engine is done, which is at once.
        self.is_as_read = True
        #: ``instant_stepwise`` brings a token a step, so that a long answer takes a while.
        self.kind: Literal["instant", "instant_stepwise"] = "instant"
        #: Another engine than these two.
        self.make_engine: Callable[[EngineSpec], HostedEngine] | None = None
        self.metrics = Metrics(SystemClock())
        self.records = {name: self._publish(name) for name in names}
        self.epoch = 0
        self.num_requests = 0
        self.num_slots = num_slots
        #: Of the next snapshot.
        self.quotas = {TENANT: Quota(limit_slots=num_slots)}
        self.agent = LocalAgent(
            self.base,
            self._make_engine,
            LocalStore(root / "worker", self.blobs),
            {reviewer_key_id(REVIEWER.public_key()): REVIEWER.public_key()},
            check_base=lambda: None,
            settings=WorkerSettings(check_invariants=True, restart_pause_min_s=0.01, **settings),  # pyright: ignore
            clock=SystemClock(),
            metrics=self.metrics,
            worker=None if worker is None else WorkerId(worker),
        )

    def _make_engine(self) -> HostedEngine:
        spec = EngineSpec(kind=self.kind, base=self.base, base_folder="", num_slots=self.num_slots)
        make = self.make_engine or (EngineAsRead if self.is_as_read else HostedEngine)
        self.engines.append(make(spec))
        return self.engines[-1]

    def _publish(self, name: str) -> VersionRecord:
        source = self.root / f"{name}.safetensors"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(f"weights of {name}".encode() * 100)
        digest, size = self.blobs.ingest(source)
        files = (FileEntry(name="adapter_model.safetensors", digest=digest, size_bytes=size),)
        module = ModuleSpec(module="m", rank=4, alpha=8.0, scaling=2.0, key_a="a", key_b="b", file=files[0].name)
        record = VersionRecord(
            owner=TENANT,
            name=name,
            number=1,
            base=self.base.digest,
            digest=version_digest(self.base.digest, files),
            manifest=Manifest(files=files, modules=(module,), rank_max=4),
        )
        return msgspec.structs.replace(record, approval=sign_approval(REVIEWER, record))

    def route(self, name: str | None) -> Route:
        return Route(self.base.digest) if name is None else self.records[name].route

    def engine_name(self, name: str) -> EngineName:
        found = engine_name(self.records[name].route)
        assert found is not None
        return found

    def publish_snapshot(self, *names: str, **told: object) -> None:
        """Give the agent a snapshot that permits these versions, as `records` has them now; `told` are more fields."""
        self.epoch += 1
        versions = {self.engine_name(name): self.records[name] for name in names}
        self.agent.apply(RoutingSnapshot(epoch=self.epoch, versions=versions, quotas=self.quotas, **told))  # pyright: ignore

    def work(
        self, name: str | None, *, max_tokens: int = 5, tenant: TenantId = TENANT, budget_ms: int | None = None
    ) -> Work:
        self.num_requests += 1
        request = RequestId(f"req-{self.num_requests}")
        route = self.route(name)
        generate = Generate(
            request_id=request,
            engine_name=engine_name(route),
            cache_salt="",
            sampling=Sampling(max_tokens=max_tokens),
            messages=(Message(role="user", content="hi"),),
        )
        return Work(request, tenant, KeyId("k"), route, generate, budget_ms, self.epoch)

    async def submit(
        self, name: str | None, *, max_tokens: int = 5, tenant: TenantId = TENANT, budget_ms: int | None = None
    ) -> Ticket:
        return await self.agent.submit(self.work(name, max_tokens=max_tokens, tenant=tenant, budget_ms=budget_ms))

    async def answer(self, name: str | None, *, tenant: TenantId = TENANT) -> str:
        return text_of(await finish(await self.submit(name, tenant=tenant)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["AgentWorld"]:
        """Run the agent, every version permitted, until the block ends."""
        self.publish_snapshot(*self.records)
        life = asyncio.create_task(self.agent.run())
        try:
            async with asyncio.timeout(120):
                await self.agent.wait_ready()
            yield self
        finally:
            await self.agent.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await life


async def finish(ticket: Ticket) -> list[EngineEvent]:
    """Read a ticket to its end."""
    events: list[EngineEvent] = []
    while ready := await ticket.events():
        events.extend(ready)
    return events


def text_of(events: list[EngineEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def forged(record: VersionRecord, donor: VersionRecord) -> VersionRecord:
    """Return a record with another version's approval."""
    return msgspec.structs.replace(record, approval=donor.approval)


def flip_last_byte(path: Path) -> None:
    """Change a file's content, keeping its size."""
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)


def blob_path(world: AgentWorld, name: str) -> Path:
    """Where the trusted store keeps a version's weights."""
    digest: Digest = world.records[name].manifest.files[0].digest
    found = [path for path in (world.root / "blobs").rglob("*") if path.is_file() and digest.endswith(path.name[-40:])]
    assert len(found) == 1
    return found[0]


Scenario = Callable[[AgentWorld], Awaitable[None]]


def run(root: Path, scenario: Scenario, **settings: int | float | str) -> AgentWorld:
    world = AgentWorld(root, **settings)  # pyright: ignore[reportArgumentType]

    async def body() -> None:
        async with asyncio.timeout(120), world.running():
            await scenario(world)

    asyncio.run(body())
    return world


def num_loads(world: AgentWorld) -> int:
    """Loads that were finished, by the metrics."""
    return _total(world, "load_duration_seconds_count")


def num_evictions(world: AgentWorld, cause: str) -> int:
    return _total(world, f'evictions_total{{cause="{cause}",')


async def push_out(world: AgentWorld, name: str) -> None:
    """Ask for other versions until this one has left its slot."""
    async with asyncio.timeout(60):
        while world.engine_name(name) in (await world.engines[0].inventory()).loaded:
            for other in sorted(world.records.keys() - {name}):
                await world.answer(other)


def _total(world: AgentWorld, part: str) -> int:
    text = world.metrics.text().decode()
    return int(sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if part in line))
