"""A whole server in this process: real listeners, real store, a real engine process, tenants and adapters in place."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hotset.cli.running import Addresses
from hotset.cli.serve import Server
from hotset.cli.settings import ServerSettings, Settings
from hotset.control.actors import LOCAL_ADMIN
from hotset.control.declaring import Desired, DesiredAdapter, DesiredBase, DesiredGrant, declare
from hotset.core.clock import SystemClock
from hotset.core.ids import AdapterId, BaseName, TenantId
from hotset.engines.settings import EngineSettings
from hotset.storage.state_folder import StateFolder
from hotset.worker.agent import LocalAgent
from hotset.worker.settings import WorkerSettings
from tests.support.adapters import BASE_NAME, make_adapter, tiny_base_shape
from tests.support.bases import make_tiny_base

BASE = BaseName("tiny")


@dataclass
class LiveServer:
    """What a check may use of it."""

    server: Server
    addresses: Addresses
    #: Tenant → token.
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def agent(self) -> LocalAgent:
        return next(iter(self.server.pool.agents.values()))

    @property
    def port(self) -> int:
        return int(self.addresses.tenant_url.rpartition(":")[2])


@asynccontextmanager
async def live_server(
    root: Path, adapters: dict[str, tuple[str, ...]], engine: EngineSettings, *, check_invariants: bool = True
) -> AsyncIterator[LiveServer]:
    """Serve tenants' adapters over the tiny base; every tenant may also call the base.

    Args:
        root: An empty folder.
        adapters: Tenant → names of its adapters; each gets weights of its own.
        engine: How the engine runs.
        check_invariants: Whether residency checks itself after every event.
    """
    make_tiny_base(root / "base")
    desired_adapters: list[DesiredAdapter] = []
    for tenant, names in adapters.items():
        for name in names:
            folder = root / f"{tenant}-{name}"
            seed = len(desired_adapters)
            targets = ("q_proj", "v_proj") if seed % 2 else ("q_proj", "k_proj", "o_proj", "gate_proj", "down_proj")
            make_adapter(folder, tiny_base_shape(), seed=seed, rank=(4, 8, 16)[seed % 3], targets=targets)
            desired_adapters.append(DesiredAdapter(AdapterId(TenantId(tenant), name), folder, BASE))
    settings = Settings(
        home=root / "home",
        server=ServerSettings(tenant_port=0, admin_port=0),
        engine=engine,
        worker=WorkerSettings(check_invariants=check_invariants),
        desired=Desired(
            bases=(DesiredBase(BASE, root / "base", (BASE_NAME,)),),
            tenants=tuple(TenantId(tenant) for tenant in adapters),
            adapters=tuple(desired_adapters),
            grants=tuple(DesiredGrant(TenantId(tenant), base=BASE) for tenant in adapters),
        ),
    )
    folder = StateFolder(settings.home)
    with folder.locked():
        folder.initialise()
        server = Server(settings, folder, SystemClock())
        try:
            await server.open()
            async with server.listening() as addresses:
                live = LiveServer(server, addresses)
                declared = await declare(server.control, LOCAL_ADMIN, settings.desired)
                assert not declared.failed, declared.failed
                for tenant in adapters:
                    issued = await server.control.keys.issue(LOCAL_ADMIN, TenantId(tenant))
                    live.tokens[tenant] = issued.token
                async with asyncio.timeout(120):
                    await live.agent.wait_ready()
                yield live
                server.tenant_app.begin_shutdown()
                server.tenant_app.stop_running()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await server.close()
