"""The workers of `hotset bench rotation`: the same engine under Hotset's policy, and under plain LRU for all alike."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.bench.publishing import publish_version
from hotset.bench.random_adapters import BenchAdapter, write_adapter
from hotset.core.base import LINEARS, BaseVersion
from hotset.core.clock import Clock
from hotset.core.ids import EngineName, Route, TenantId, engine_name
from hotset.core.quotas import Quota
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from hotset.registry.approval import reviewer_key_id
from hotset.registry.verify import VerifyPolicy
from hotset.residency.reuse import Reuse, ReuseModel
from hotset.storage.blobs import BlobStore
from hotset.telemetry.metrics import Metrics
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import LocalStore
from hotset.worker.settings import WorkerSettings

#: Who everybody is for the worker without quotas.
EVERYBODY = TenantId("everybody")
_RANK = 8
#: So many that no block reaches it: what is measured is who turns over whose slots.
_LOADS_PER_MINUTE = 60_000.0
_MODEL_LEN_MAX = 512
_NUM_SEQUENCES_MAX = 16


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

    def log_seconds(self, name: EngineName, now_s: float) -> float:
        """Return the logarithm of the time since the last request."""
        asked_at_s = self._asked_at_s.get(name)
        return math.inf if asked_at_s is None else math.log(max(now_s - asked_at_s, 1e-6))


class RotationWorld:
    """Versions of all tenants in one store, and the agents over it."""

    def __init__(self, folder: Path, base: BaseVersion, base_folder: Path, *, num_slots: int, clock: Clock) -> None:
        self._folder = folder
        self._base = base
        self._base_folder = base_folder
        self._num_slots = num_slots
        self._clock = clock
        self._signer = Ed25519PrivateKey.generate()
        self._blobs = BlobStore(folder / "blobs")
        self._records: dict[EngineName, VersionRecord] = {}

    def publish(self, tenant: TenantId, number: int) -> Route:
        """Make, verify, store and approve one adapter; return its route."""
        adapter = BenchAdapter(f"bench-{number:02d}", self._folder / "made" / tenant / f"bench-{number:02d}")
        seed = sum(tenant.encode()) * 1000 + number
        write_adapter(adapter.folder, self._base.shape, self._base.name, rank=_RANK, targets=LINEARS, seed=seed)
        policy = VerifyPolicy(rank_max=_RANK, dtype="bfloat16", overrides=frozenset(("other_base",)))
        record = publish_version(
            adapter.folder,
            self._base,
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
    async def agent(self, name: str, quotas: Mapping[TenantId, Quota], *, is_lru: bool) -> AsyncIterator[LocalAgent]:
        """Run an agent with an engine of its own until the block ends."""
        spec = EngineSpec(
            kind="embedded",
            base=self._base,
            base_folder=str(self._base_folder.resolve()),
            num_slots=self._num_slots,
            rank_max=_RANK,
            dtype="bfloat16",
            model_len_max=_MODEL_LEN_MAX,
            num_sequences_max=_NUM_SEQUENCES_MAX,
        )
        make_reuse: type[ReuseModel] = LastUse if is_lru else Reuse
        agent = LocalAgent(
            self._base,
            partial(HostedEngine, spec),
            LocalStore(self._folder / f"worker-{name}", self._blobs),
            {reviewer_key_id(self._signer.public_key()): self._signer.public_key()},
            check_base=lambda: None,  # hashed when it was read
            settings=WorkerSettings(loads_per_minute=_LOADS_PER_MINUTE),
            clock=self._clock,
            metrics=Metrics(self._clock),
            make_reuse=make_reuse,
        )
        agent.apply(RoutingSnapshot(epoch=1, versions=self._records, quotas=quotas))
        life = asyncio.create_task(agent.run())
        try:
            await agent.wait_ready()
            yield agent
        finally:
            await agent.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await life
