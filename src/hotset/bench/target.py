"""The Hotset side of the gateway bench: the tenant plane and its agent as they serve, over the instant engine.

``python -m hotset.bench.target`` prints a `Hello` line, then obeys lines on its standard input
(``profile``, ``report``) until that ends. Nothing is left out of a request's path: keys, tenants, aliases
to adapter versions with signed approvals and stored bytes, leases, limits, request log, metrics, and the
hop to the engine's own process.
"""

import asyncio
import cProfile
import gc
import hashlib
import io
import pstats
import secrets
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotset.bench.gateway_sides import Caller, Hello
from hotset.bench.publishing import publish_version
from hotset.bench.random_adapters import RANK_MAX, write_mix
from hotset.core.base import BaseShape, BaseVersion, TokenizerFacts
from hotset.core.clock import SystemClock
from hotset.core.ids import (
    Alias,
    BaseName,
    Digest,
    EngineName,
    KeyId,
    Route,
    TenantId,
    engine_name,
)
from hotset.core.snapshot import AliasEntry, KeyEntry, RoutingSnapshot
from hotset.core.versions import VersionRecord
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from hotset.gateway.app import TenantApp, build_tenant_app
from hotset.gateway.server import server_config
from hotset.gateway.settings import GatewaySettings
from hotset.registry.approval import reviewer_key_id
from hotset.registry.verify import VerifyPolicy
from hotset.storage.blobs import BlobStore
from hotset.telemetry.metrics import Metrics
from hotset.telemetry.request_log import RequestLog
from hotset.worker.agent import LocalAgent
from hotset.worker.local_store import LocalStore
from hotset.worker.settings import WorkerSettings

_TENANTS = ("acme", "birch", "cedar")
_ADAPTERS_EACH = 2
_PROFILE_LINES = 45
_SHAPE = BaseShape(
    family="llama",
    hidden_size=64,
    intermediate_size=128,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=1024,
    context_len=4096,
    tie_word_embeddings=True,
)


def _base(name: str) -> BaseVersion:
    return BaseVersion(
        name=BaseName(name),
        digest=Digest("sha256:" + hashlib.sha256(name.encode()).hexdigest()),
        shape=_SHAPE,
        tokenizer=TokenizerFacts(),
        files={},
    )


#: Engine kind to the base that it serves; the same adapters on both are different versions.
_BASES: dict[Literal["instant", "instant_stepwise"], BaseVersion] = {
    "instant": _base("instant"),
    "instant_stepwise": _base("stepwise"),
}


class Fleet:
    """The tenants, keys and versions that the target serves, made afresh in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signer = Ed25519PrivateKey.generate()
        self.reviewer_keys = {reviewer_key_id(self._signer.public_key()): self._signer.public_key()}
        self.blobs = BlobStore(folder / "blobs")
        self.callers: list[Caller] = []
        self._keys: dict[str, KeyEntry] = {}
        self._aliases: dict[tuple[TenantId, Alias], AliasEntry] = {}
        self._versions: dict[EngineName, VersionRecord] = {}
        for base in _BASES.values():
            write_mix(folder / base.name, _SHAPE, base.name, len(_TENANTS) * _ADAPTERS_EACH)
        for tenant in _TENANTS:
            self._add_tenant(TenantId(tenant))

    def snapshot(self) -> RoutingSnapshot:
        """Return the snapshot that serves all of them."""
        return RoutingSnapshot(
            epoch=1,
            keys=self._keys,
            tenants=frozenset(TenantId(tenant) for tenant in _TENANTS),
            aliases=self._aliases,
            versions=self._versions,
            bases={base.digest: base for base in _BASES.values()},
        )

    def _add_tenant(self, tenant: TenantId) -> None:
        token = f"hs_{secrets.token_urlsafe(32)}"
        hashed = hashlib.sha256(token.encode()).hexdigest()
        self._keys[hashed] = KeyEntry(KeyId(f"key-{tenant}"), tenant)
        first = _TENANTS.index(tenant) * _ADAPTERS_EACH
        for kind, base in _BASES.items():
            folders = sorted((self._folder / base.name).iterdir())[first : first + _ADAPTERS_EACH]
            for route in (Route(base.digest), *(self._publish(tenant, base, path) for path in folders)):
                alias = Alias(f"{base.name}/{route.adapter.name if route.adapter else 'plain'}")
                numbered = {route.number: route} if route.number else {}
                self._aliases[tenant, alias] = AliasEntry(
                    alias=alias, active=route, numbered=numbered, base_name=base.name, adapter=route.adapter
                )
                is_stepwise, name = kind == "instant_stepwise", engine_name(route)
                self.callers.append(Caller(token=token, alias=alias, is_stepwise=is_stepwise, engine_name=name))

    def _publish(self, tenant: TenantId, base: BaseVersion, folder: Path) -> Route:
        """Verify, store and approve one version, as control would."""
        record = publish_version(
            folder,
            base,
            tenant,
            f"{base.name}-{folder.name}",
            policy=VerifyPolicy(rank_max=RANK_MAX),
            blobs=self.blobs,
            signer=self._signer,
        )
        self._versions[_named(record.route)] = record
        return record.route


def _named(route: Route) -> EngineName:
    name = engine_name(route)
    assert name is not None
    return name


async def serve(folder: Path) -> None:
    """Serve until standard input ends."""
    clock = SystemClock()
    metrics, fleet = Metrics(clock), Fleet(folder)
    agents = {
        base.digest: LocalAgent(
            base,
            partial(HostedEngine, EngineSpec(kind=kind, base=base, base_folder="", num_slots=8, rank_max=RANK_MAX)),
            LocalStore(folder / f"worker-{base.name}", fleet.blobs),
            fleet.reviewer_keys,
            check_base=lambda: None,  # these engines read no files of a base
            settings=WorkerSettings(),
            clock=clock,
            metrics=metrics,
        )
        for kind, base in _BASES.items()
    }
    request_log = RequestLog(folder / "requests.jsonl")
    settings = GatewaySettings()
    app = build_tenant_app(
        settings,
        agents,
        clock=clock,
        metrics=metrics,
        request_log=request_log,
        cache_salt_secret=secrets.token_bytes(32),
    )
    for holder in (app, *agents.values()):
        holder.apply(fleet.snapshot())
    async with asyncio.TaskGroup() as running:
        for agent in agents.values():
            running.create_task(agent.run())
            await agent.wait_ready()
        try:
            await _listen(app, settings, fleet.callers)
        finally:
            for agent in agents.values():
                await agent.stop()
    request_log.close()


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.listens.set()


async def _listen(app: TenantApp, settings: GatewaySettings, callers: list[Caller]) -> None:
    config = server_config(app, settings, host="127.0.0.1", port=0)
    server = _Server(config)
    listener = config.bind_socket()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.listens.wait()
    gc.freeze()  # as every process of ours that serves
    _say(msgspec.json.encode(Hello(port=listener.getsockname()[1], callers=tuple(callers))))
    await _obey()
    server.should_exit = True
    await serving


async def _obey() -> None:
    """Carry out lines of standard input until it ends; the profiler watches the event loop's thread alone."""
    loop = asyncio.get_running_loop()
    profile = cProfile.Profile()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.strip() == "profile":
            profile = cProfile.Profile()
            profile.enable()
            _say(b"{}")
        elif line.strip() == "report":
            profile.disable()
            _say(msgspec.json.encode(profile_text(profile)))


def profile_text(profile: cProfile.Profile) -> str:
    """Return the functions in which a profile spent most time of their own, most first."""
    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text)
    stats.sort_stats("tottime").print_stats(_PROFILE_LINES)
    return text.getvalue()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    """Run the target."""
    import uvloop  # as the tenant plane itself runs

    with tempfile.TemporaryDirectory(prefix="target-", dir=Path.cwd()) as folder:
        uvloop.run(serve(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
