"""A real server in a process of its own, on free ports, over a tiny base with real adapters.

    with running_server(tmp_path, adapters=3) as server:
        key = server.tenants["tenant-0"].token
        httpx.post(f"{server.url}/v1/chat/completions", ...)

Tenant ``tenant-i`` owns adapter ``tenant-i/adapter`` with alias ``adapter``, and nothing else. The engine is the
embedded one over a tiny random base, or, with ``kind="instant"``, the one that answers canned text.
"""

import contextlib
import os
import signal
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hotset.cli.client import AdminClient
from hotset.cli.server_process import ServerProcess, server_process
from hotset.core.clock import SystemClock
from tests.support.adapters import BASE_NAME, make_adapter, tiny_base_shape
from tests.support.bases import make_tiny_base

BASE = "tiny"
ALIAS = "adapter"
CLOCK = SystemClock()


@dataclass(frozen=True)
class TenantInPlace:
    """One tenant with its adapter and key."""

    name: str
    #: ``owner/name`` and ``owner/name@1``.
    adapter: str
    ref: str
    #: Digest and engine name, which no other tenant may ever see.
    digest: str
    engine_name: str
    key_id: str
    token: str


@dataclass
class RunningServer:
    """A server and what was put into it."""

    process: ServerProcess
    home: Path
    admin: AdminClient
    tenants: dict[str, TenantInPlace] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The tenant plane."""
        return self.process.base_url

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self.process.pid

    def kill(self) -> None:
        """End the server as a power cut would: SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait_end()

    def log(self) -> str:
        """Everything the server printed."""
        return (self.home / "logs" / "server.log").read_text(errors="replace")


def write_world(root: Path, *, adapters: int = 2, ranks: tuple[int, ...] = (4, 8, 16)) -> Path:
    """Write a tiny base at ``root/base`` and adapter folders ``root/adapter-i``, where they are missing."""
    if not (root / "base").exists():
        make_tiny_base(root / "base")
    for number in range(adapters):
        folder = root / f"adapter-{number}"
        if not folder.exists():
            make_adapter(folder, tiny_base_shape(), rank=ranks[number % len(ranks)], seed=number)
    return root


def write_config(root: Path, **sections: dict[str, Any]) -> Path:
    """Write ``root/hotset.yaml``: free ports, few threads, and the given sections' keys."""
    content: dict[str, dict[str, Any]] = {
        "server": {"tenant_port": 0, "admin_port": 0},
        "engine": {"num_slots": 4, "num_threads": 1, "kv_bytes_max": 64 << 20, "dtype": "float32"},
        "worker": {"check_invariants": True, "drain_timeout_s": 5},
    }
    for name, section in sections.items():
        content.setdefault(name, {}).update(section)
    path = root / "hotset.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@contextlib.contextmanager
def bare_server(home: Path, config: Path) -> Generator[RunningServer]:
    """Give a server over a state folder, whatever is in it."""
    with server_process(home, CLOCK, flags=("-f", str(config))) as process:
        yield RunningServer(process, home, process.admin)


@contextlib.contextmanager
def running_server(
    root: Path, *, adapters: int = 2, kind: str = "embedded", **sections: dict[str, Any]
) -> Generator[RunningServer]:
    """Give a server with a base and one tenant for each adapter, ready to answer.

    Args:
        root: An empty folder; the state folder is ``root/home``.
        adapters: How many tenants, each with an adapter of its own.
        kind: ``embedded`` or ``instant``.
        sections: Settings by section of hotset.yaml, such as ``engine={"num_slots": 2}``.
    """
    write_world(root, adapters=adapters)
    sections = {**sections, "engine": {"kind": kind, **sections.get("engine", {})}}
    with bare_server(root / "home", write_config(root, **sections)) as server:
        body = {"folder": str(root / "base"), "name": BASE, "synonyms": [BASE_NAME]}
        server.admin.post("/bases", body)
        for number in range(adapters):
            tenant = add_tenant(server.admin, f"tenant-{number}", root / f"adapter-{number}")
            server.tenants[tenant.name] = tenant
        server.process.wait_ready()
        yield server


def add_tenant(admin: AdminClient, name: str, folder: Path) -> TenantInPlace:
    """Add a tenant, bring its adapter to active, issue a key."""
    admin.post("/tenants", {"tenant": name})
    path = f"/adapters/{name}/{ALIAS}/versions"
    version = admin.post(path, {"folder": str(folder), "base": BASE})
    for verb in ("prove", "approve", "promote"):
        version = admin.post(f"{path}/{version['number']}/{verb}", {})
    issued = admin.post("/keys", {"tenant": name})
    return TenantInPlace(
        name=name,
        adapter=f"{name}/{ALIAS}",
        ref=version["ref"],
        digest=version["digest"],
        engine_name=version["engine_name"],
        key_id=issued["key"]["id"],
        token=issued["token"],
    )
