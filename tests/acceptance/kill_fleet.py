"""Kill -9 an agent, an engine, a gateway or control at random while requests run; start it again; check; go on.

``python -m tests.acceptance.kill_fleet [--kills N] [--seed S]``: one fleet of control, three workers and two gateways
lives through all the kills. Every answer that came whole is its own tenant's, every other one ended with an error that
says so; after each kill every tenant is answered by every gateway again, and once nothing is asked any more no worker
has a lease left. Exit status 0 where all of that holds.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil

from tests.support.fleet import Fleet, FleetProcess, ask, own_text, running_fleet
from tests.support.server import TenantInPlace

_KINDS = ("worker", "engine", "gateway", "control")
_TOKENS = 200
_BEATS_S = 2.5
#: What a tenant may hear while something is gone.
_OUTAGES = {502, 503, 429}


class Load:
    """Clients that ask all the time, each through one gateway."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._stopping = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        pairs = [(gateway, tenant) for gateway in ("g1", "g2") for tenant in fleet.tenants.values()]
        self._threads = [threading.Thread(target=self._ask_on, args=pair) for pair in pairs]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a client still waits for an answer that will not come"

    def _ask_on(self, gateway: str, tenant: TenantInPlace) -> None:
        expected = own_text(tenant, _TOKENS)
        while not self._stopping.is_set():
            outcome = self._ask(gateway, tenant, expected)
            self.outcomes[outcome] += 1
            if outcome != "whole":
                time.sleep(0.1)

    def _ask(self, gateway: str, tenant: TenantInPlace, expected: str) -> str:
        try:
            response = ask(self._fleet.url(gateway), tenant, max_tokens=_TOKENS)
        except (httpx.HTTPError, AssertionError):
            return "gateway gone"
        if response.status_code == 200:
            if response.json()["choices"][0]["text"] != expected:
                self.wrong.append(f"{tenant.name} got another answer: {response.text[:200]}")
            return "whole"
        if response.status_code not in _OUTAGES:
            self.wrong.append(f"{tenant.name}: status {response.status_code}: {response.text[:200]}")
        return str(response.json()["error"]["code"])


def victim_of(fleet: Fleet, kind: str, rng: random.Random) -> tuple[str, int, FleetProcess | None]:
    """Return what to call it, which process to kill, and which one to start again."""
    role = "worker" if kind == "engine" else kind
    process = rng.choice([each for each in fleet.processes.values() if each.role == role])
    if kind != "engine":
        return process.name, process.pid, process
    engines = psutil.Process(process.pid).children()
    return f"engine of {process.name}", rng.choice(engines).pid if engines else process.pid, None


def check(fleet: Fleet) -> None:
    """Assert that everybody is served again."""
    fleet.until(lambda: fleet.num_linked_workers() == 3, "every worker")
    for gateway in ("g1", "g2"):
        fleet.until(lambda gateway=gateway: fleet.ready(gateway), f"gateway {gateway}")
        for tenant in fleet.tenants.values():
            fleet.until(lambda g=gateway, t=tenant: answers(fleet, g, t), f"{tenant.name} at {gateway}")


def answers(fleet: Fleet, gateway: str, tenant: TenantInPlace) -> bool:
    """Whether a tenant's own answer comes."""
    try:
        response = ask(fleet.url(gateway), tenant)
    except httpx.HTTPError:
        return False
    return response.status_code == 200 and response.json()["choices"][0]["text"] == own_text(tenant)


def check_idle(fleet: Fleet) -> None:
    """Assert that no lease is left anywhere, by every worker's own account."""

    def leases() -> int:
        with fleet.admin() as admin:
            workers = admin.get("/residency")["workers"]
        return sum(slot["num_running"] + slot["num_waiting"] for worker in workers for slot in worker["slots"])

    time.sleep(_BEATS_S)
    fleet.until(lambda: leases() == 0, "the end of every lease", timeout_s=30)


def run(num_kills: int, seed: int) -> None:
    """Kill and restart the processes of one fleet; raise at the first thing that does not hold."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="hotset-fleet-") as folder,
        running_fleet(Path(folder), workers=3, gateways=2, adapters=4, kind="instant_stepwise") as fleet,
    ):
        for kill in range(num_kills):
            load = Load(fleet)
            load.start()
            time.sleep(rng.uniform(0.2, 1.5))
            kind = _KINDS[kill % len(_KINDS)] if kill < len(_KINDS) else rng.choice(_KINDS)
            name, pid, process = victim_of(fleet, kind, rng)
            if process is not None:
                process.kill()
                time.sleep(rng.uniform(0.0, 1.0))
                process.start()
            else:
                psutil.Process(pid).kill()
            time.sleep(1.0)
            load.stop()
            assert not load.wrong, load.wrong
            check(fleet)
            check_idle(fleet)
            print(f"kill {kill + 1:3d}: {name}; answers: {dict(load.outcomes)}", flush=True)
        with fleet.admin() as admin:
            assert admin.get("/audit/verify")["is_intact"]


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    run(arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills: no wrong answer, everybody served again after each, no lease left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
