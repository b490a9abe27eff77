"""A whole fleet of real processes over one state folder: control, gateways and workers, each of which may be killed.

    with running_fleet(tmp_path, workers=3, gateways=2) as fleet:
        httpx.post(f"{fleet.url('g1')}/v1/chat/completions", ...)

Tenants are those of `tests.support.server`. The engine answers canned text unless it is told to be the embedded one.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hotset.cli.client import AdminClient, unix_client
from hotset.cli.ending import ending_in_order
from hotset.cli.running import Addresses, read_addresses_at
from hotset.core.errors import ServerUnreachableError
from hotset.storage.state_folder import StateFolder
from tests.support.adapters import BASE_NAME
from tests.support.leashed import leashed
from tests.support.server import BASE, TenantInPlace, add_tenant, write_config, write_world

_START_S = 120.0
_STOP_S = 60.0
#: For all of them, as making one takes longer than most answers; processes come and go, so no connection is kept.
_HTTP = httpx.Client(
    limits=httpx.Limits(max_connections=None, max_keepalive_connections=0), timeout=60, trust_env=False
)


@dataclass
class FleetProcess:
    """One process and how it was started, so that it can be started again."""

    role: str
    name: str
    command: list[str]
    log: Path
    address_file: Path
    popen: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; its output is added to its log."""
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                leashed(self.command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.popen is not None
        return self.popen.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.popen is not None and self.popen.poll() is None

    def addresses(self) -> Addresses | None:
        """Where it says that it listens, this start of it."""
        found = read_addresses_at(self.address_file)
        return found if found is not None and self.is_alive and found.pid == self.pid else None

    def kill(self) -> None:
        """End it as a power cut would; its engine ends with it."""
        assert self.popen is not None
        self.popen.kill()
        self.popen.wait()

    def stop(self, timeout_s: float = _STOP_S) -> int:
        """End it gently; return its exit status."""
        assert self.popen is not None
        if self.is_alive:
            self.popen.terminate()
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def said(self) -> str:
        """Everything it printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@dataclass
class Fleet:
    """The processes and what was put into them."""

    home: Path
    config: Path
    processes: dict[str, FleetProcess] = field(default_factory=dict)
    tenants: dict[str, TenantInPlace] = field(default_factory=dict)

    def add(
        self, role: str, name: str, *flags: str, home: Path | None = None, config: Path | None = None
    ) -> FleetProcess:
        """Start another process, over the state folder and under the settings of all where it has none of its own."""
        folder = StateFolder(home or self.home)
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-m", "hotset.cli", "--home", str(folder.path), role]
        command += ["-f", str(config or self.config), *flags]
        if role != "control" and "--name" not in flags:
            command += ["--name", name]
        file = folder.run / ("server.json" if role == "control" else f"{role}-{name}.json")
        process = FleetProcess(role, name, command, self.home.parent / f"{role}-{name}.log", file)
        process.start()
        self.processes[name] = process
        return process

    def url(self, gateway: str) -> str:
        """A gateway's tenant plane."""
        found = self.processes[gateway].addresses()
        assert found is not None
        return found.tenant_url

    @contextlib.contextmanager
    def admin(self) -> Generator[AdminClient]:
        """Give a client of control."""
        with unix_client(StateFolder(self.home).admin_socket) as client:
            yield client

    def until(self, is_so: Callable[[], Any], what: str, timeout_s: float = _START_S) -> Any:
        """Return what is true in the end."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = is_so()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what} did not come; the processes said:\n{self.said()}")

    def ready(self, gateway: str) -> bool:
        """Whether a gateway says that it is ready."""
        found = self.processes[gateway].addresses()
        with contextlib.suppress(httpx.HTTPError):
            return found is not None and _HTTP.get(f"{found.tenant_url}/readyz").status_code == 200
        return False

    def num_linked_workers(self) -> int:
        """Workers that have a fence, by control's account."""
        try:
            with self.admin() as admin:
                holders = admin.get("/holders")["holders"]
        except ServerUnreachableError:  # control is about to begin
            return 0
        return sum(holder["role"] == "worker" and holder["fence"] > 0 for holder in holders)

    def wait_complete(self, timeout_s: float = _START_S) -> None:
        """Return once every worker serves and every gateway is ready."""
        num_workers = sum(process.role == "worker" for process in self.processes.values())
        self.until(lambda: self.num_linked_workers() == num_workers, "every worker", timeout_s)
        for process in self.processes.values():
            if process.role == "gateway":
                self.until(lambda name=process.name: self.ready(name), f"gateway {process.name}")

    def stop(self) -> None:
        """End every process, gently; then insist, and say so."""
        alive = [process for process in self.processes.values() if process.is_alive]
        for process in alive:
            os.kill(process.pid, signal.SIGTERM)
        deadline_s, insisted = time.monotonic() + _STOP_S, list[str]()
        for process in alive:
            try:
                process.stop(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                insisted.append(process.name)
        assert not insisted, f"{insisted} did not end when told to; the processes said:\n{self.said()}"

    def kill(self) -> None:
        """End every process at once."""
        for process in self.processes.values():
            if process.is_alive:
                process.kill()

    def said(self) -> str:
        """The last lines of every process."""
        return "\n".join(f"--- {name}\n{each.said()[-3000:]}" for name, each in self.processes.items())


def free_port() -> int:
    """Return a port of this machine that nobody listens on now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def ask(url: str, tenant: TenantInPlace, *, max_tokens: int = 8, stream: bool = False, **more: Any) -> httpx.Response:
    """Ask for the tenant's own adapter."""
    body = {"model": "adapter", "prompt": "a b c", "max_tokens": max_tokens, "temperature": 0, "stream": stream, **more}
    headers = {"authorization": f"Bearer {tenant.token}"}
    return _HTTP.post(f"{url}/v1/completions", json=body, headers=headers)


def get(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """Get a page, however long a busy machine takes."""
    return _HTTP.get(url, headers=headers)


def text_of(response: httpx.Response) -> str:
    """The whole answer's text."""
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def own_text(tenant: TenantInPlace, max_tokens: int = 8) -> str:
    """What the instant engine answers for the tenant's own version."""
    return "".join(f"{tenant.engine_name[3:11]}.{position} " for position in range(max_tokens))


@contextlib.contextmanager
def fleet_of_control(home: Path, config: Path, *, control_config: Path | None = None) -> Generator[Fleet]:
    """Give a fleet that has control so far; whatever is added is ended with it, however the block is left."""
    fleet = Fleet(home, config)
    with ending_in_order():
        try:
            fleet.add("control", "control", config=control_config)
            fleet.until(fleet.processes["control"].addresses, "control")
            yield fleet
            fleet.stop()
        finally:
            fleet.kill()


@contextlib.contextmanager
def running_fleet(
    root: Path,
    *,
    workers: int = 3,
    gateways: int = 2,
    adapters: int = 4,
    kind: str = "instant",
    **sections: dict[str, Any],
) -> Generator[Fleet]:
    """Give a fleet whose workers serve and whose gateways are ready."""
    write_world(root, adapters=adapters)
    sections = {**sections, "engine": {"kind": kind, **sections.get("engine", {})}}
    with fleet_of_control(root / "home", write_config(root, **sections)) as fleet:
        with fleet.admin() as admin:
            admin.post("/bases", {"folder": str(root / "base"), "name": BASE, "synonyms": [BASE_NAME]})
            for number in range(adapters):
                tenant = add_tenant(admin, f"tenant-{number}", root / f"adapter-{number}")
                fleet.tenants[tenant.name] = tenant
        for number in range(1, workers + 1):
            fleet.add("worker", f"w{number}")
        for number in range(1, gateways + 1):
            fleet.add("gateway", f"g{number}")
        fleet.wait_complete()
        yield fleet
