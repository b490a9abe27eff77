"""The workers of the scenarios: the same engine under Hotset's policy, and under plain LRU for all alike."""

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.bench.publishing import publish_version
from hotset.bench.random_adapters import BenchAdapter, write_adapter
from hotset.bench.virtual_time import VirtualClock, run_virtual
from hotset.core.base import LINEARS, BaseShape, BaseVersion, TokenizerFacts
from hotset.core.clock import Clock, SystemClock
from hotset.core.ids import BaseName, EngineName, Route, TenantId, engine_name
from hotset.core.messages import AdapterLoad
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.engines.fake.engine import FakeSettings
from hotset.engines.fake.inline import InlineEngine
from hotset.engines.fake.profiles import ProfileName
from hotset.engines.hosted import HostedEngine
from hotset.engines.port import Engine
from hotset.engines.wire import EngineSpec
from hotset.registry.approval import ApprovedVersion, reviewer_key_id
from hotset.registry.digests import base_digest
from hotset.registry.verify import VerifyPolicy
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.storage.base_files import read_base_folder
from hotset.storage.blobs import BlobStore
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import LocalStore
from hotset.worker.settings import WorkerSettings

_Result = TypeVar("_Result")
#: Who everybody is for the worker without quotas.
EVERYBODY = TenantId("everybody")
_RANK = 8
#: So many that no block reaches it: what is measured is who turns over whose slots.
_LOADS_PER_MINUTE = 60_000.0
_NO_BASE = BaseShape(
    family="llama",
    hidden_size=64,
    intermediate_size=128,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=1024,
    context_len=8192,
    tie_word_embeddings=True,
)


class LastUse:
    """The guess of LRU: what was asked for longest ago is asked for again last."""

    def __init__(self) -> None:
        self._asked_at_s: dict[EngineName, float] = {}

    def asked(self, name: EngineName, now_s: float) -> None:
        """Count a request for a version."""
        self._asked_at_s[name] = now_s

    def forget(self, kept: frozenset[EngineName]) -> None:
        """Drop every version that is not among these."""
        self._asked_at_s = {name: at_s for name, at_s in self._asked_at_s.items() if name in kept}

    def log_seconds_of(self, names: Sequence[EngineName], now_s: float) -> list[float]:
        """Return the logarithm of the time since the last request for each."""
        ages_s = (now_s - self._asked_at_s.get(name, -math.inf) for name in names)
        return [math.log(max(age_s, 1e-6)) for age_s in ages_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """Which engine the workers of a bench run."""

    #: Of the embedded engine; without it, the fake one runs.
    base_folder: Path | None = None
    #: Of the fake engine: whose times it has, and whether they are the machine's or virtual ones.
    profile: ProfileName = "plain"
    is_virtual: bool = True

    def base(self) -> BaseVersion:
        """Return the base version to serve; of the fake engine, one without files.

        Raises:
            VersionRefusedError: the base is not one that is served.
        """
        if self.base_folder is not None:
            return read_base_folder(self.base_folder, BaseName("bench"), ())
        return BaseVersion(
            name=BaseName("bench"), digest=base_digest({}), shape=_NO_BASE, tokenizer=TokenizerFacts(), files={}
        )

    @property
    def num_threads(self) -> int:
        """Threads of each embedded engine: half of the cores.

        Two engines stand beside each other, and what one still does as the other's turn begins must not take its cores:
        threads that wait for one another at the end of each kernel lose 30 times as much as the core that is taken.
        """
        return max(1, (os.cpu_count() or 1) // 2)

    def words(self) -> str:
        """Return it as the report says it."""
        if self.base_folder is not None:
            return f"embedded, {self.base_folder.name}, bfloat16, {self.num_threads} threads"
        return f"fake, profile {self.profile}, {'virtual time' if self.is_virtual else 'a process of its own'}"

    def run(self, measure: Callable[[Clock], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a bench in the engine's time."""
        if self.base_folder is None and self.is_virtual:
            clock = VirtualClock()
            return run_virtual(clock, measure(clock))
        return asyncio.run(measure(SystemClock()))

    def make(self, spec: EngineSpec, clock: Clock) -> Engine:
        """Return an engine, not yet started."""
        if spec.kind != "fake" or not self.is_virtual:
            return HostedEngine(spec)
        settings = FakeSettings(
            base=spec.base,
            profile=spec.profile,
            num_slots=spec.num_slots,
            rank_max=spec.rank_max,
            model_len_max=spec.model_len_max,
            num_sequences_max=spec.num_sequences_max,
        )
        return InlineEngine(settings, clock)

    def spec(self, base: BaseVersion, *, num_slots: int, num_sequences_max: int, model_len_max: int) -> EngineSpec:
        """Return what an engine process is started with."""
        return EngineSpec(
            kind="fake" if self.base_folder is None else "embedded",
            base=base,
            base_folder="" if self.base_folder is None else str(self.base_folder.resolve()),
            num_slots=num_slots,
            rank_max=_RANK,
            dtype="bfloat16",
            model_len_max=model_len_max,
            num_sequences_max=num_sequences_max,
            num_threads=self.num_threads,
            profile=self.profile,
        )


@dataclass(frozen=True, slots=True)
class LoadSeen:
    """One load that an engine was given the files for."""

    name: EngineName
    #: Whether the files came from the trusted store.
    is_fetch: bool


class _WatchedStore(LocalStore):
    """A local store that says what is loaded from it: it is asked once a load."""

    def __init__(self, root: Path, blobs: BlobStore, loads: list[LoadSeen]) -> None:
        super().__init__(root, blobs)
        self._loads = loads

    def materialise(self, approved: ApprovedVersion) -> AdapterLoad:
        """Bring a version's files here if they are not."""
        name = engine_name(approved.record.route)
        assert name is not None
        is_fetch = not self.holds(name)
        load = super().materialise(approved)
        self._loads.append(LoadSeen(name, is_fetch))
        return load


@dataclass(frozen=True, slots=True)
class Worker:
    """One agent that serves, and what its engine loaded, in order."""

    agent: LocalAgent
    metrics: Metrics
    loads: list[LoadSeen] = field(default_factory=list[LoadSeen])


class Workers:
    """Versions of all tenants in one store, and the agents over it."""

    def __init__(self, folder: Path, engine: EngineChoice, clock: Clock) -> None:
        self.base = engine.base()
        self._folder = folder
        self._engine = engine
        self._clock = clock
        self._signer = Ed25519PrivateKey.generate()
        self._blobs = BlobStore(folder / "blobs")
        self._records: dict[EngineName, VersionRecord] = {}

    def publish(self, tenant: TenantId, number: int) -> Route:
        """Make, verify, store and approve one adapter; return its route."""
        adapter = BenchAdapter(f"bench-{number:02d}", self._folder / "made" / tenant / f"bench-{number:02d}")
        seed = sum(tenant.encode()) * 1000 + number
        write_adapter(adapter.folder, self.base.shape, self.base.name, rank=_RANK, targets=LINEARS, seed=seed)
        policy = VerifyPolicy(rank_max=_RANK, dtype="bfloat16", overrides=frozenset(("other_base",)))
        record = publish_version(
            adapter.folder,
            self.base,
            tenant,
            adapter.name,
            policy=policy,
            blobs=self._blobs,
            signer=self._signer,
        )
        name = engine_name(record.route)
        assert name is not None
        self._records[name] = record
        return record.route

    @asynccontextmanager
    async def agent(
        self,
        name: str,
        quotas: Mapping[TenantId, Quota],
        *,
        num_slots: int,
        num_sequences_max: int = 32,
        model_len_max: int = 512,
        is_lru: bool = False,
    ) -> AsyncIterator[Worker]:
        """Run an agent with an engine of its own until the block ends."""
        spec = self._engine.spec(
            self.base, num_slots=num_slots, num_sequences_max=num_sequences_max, model_len_max=model_len_max
        )
        make_reuse: type[ReuseModel] = LastUse if is_lru else Reuse
        metrics, loads = Metrics(self._clock), list[LoadSeen]()
        agent = LocalAgent(
            self.base,
            partial(self._engine.make, spec, self._clock),
            _WatchedStore(self._folder / f"worker-{name}", self._blobs, loads),
            {reviewer_key_id(self._signer.public_key()): self._signer.public_key()},
            check_base=lambda: None,  # hashed when it was read
            settings=WorkerSettings(loads_per_minute=_LOADS_PER_MINUTE),
            clock=self._clock,
            metrics=metrics,
            make_reuse=make_reuse,
        )
        agent.apply(RoutingSnapshot(epoch=1, versions=self._records, quotas=quotas))
        life = asyncio.create_task(agent.run())
        try:
            await agent.wait_ready()
            yield Worker(agent, metrics, loads)
        finally:
            await agent.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await life
