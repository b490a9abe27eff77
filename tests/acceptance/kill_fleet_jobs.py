"""Kill -9 an agent, an engine, a gateway or control at random while a fleet accepts and runs jobs; start it; go on.

``python -m tests.acceptance.kill_fleet_jobs [--kills N] [--seed S]``: as `kill_jobs`, over control, two workers and two
gateways that share the jobs. Clients go from one gateway to the other. Exit status 0 where every accepted job ended
with one result that never changed, none is lost and none is doubled.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import psutil

from tests.acceptance.kill_fleet import victim_of
from tests.acceptance.kill_jobs import SETTINGS, Client, check, client_of
from tests.support.fleet import Fleet, running_fleet

_GATEWAYS = ("g1", "g2")
_TENANTS = 3
_KINDS = ("worker", "engine", "gateway", "control")


@contextlib.contextmanager
def working(fleet: Fleet, clients: list[Client], rng: random.Random) -> Generator[None]:
    """Let the clients work for the length of the block, each through whichever gateway is there."""
    stopping = threading.Event()
    errors: list[BaseException] = []

    def work(client: Client, own: random.Random) -> None:
        try:
            while not stopping.is_set():
                found = fleet.processes[own.choice(_GATEWAYS)].addresses()
                if found is None:
                    time.sleep(0.1)
                else:
                    client.work(found.tenant_url, own, stopping)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(client, random.Random(rng.random()))) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive(), "a client waits for an answer that will not come"
    if errors:
        raise errors[0]


def kill(fleet: Fleet, kind: str, rng: random.Random) -> str:
    """Kill one process and start it again; return what it is called."""
    if kind == "engine":  # the kill before may have been a worker's, whose engine is on its way
        workers = [each for each in fleet.processes.values() if each.role == "worker"]
        fleet.until(
            lambda: all(psutil.Process(each.pid).children() for each in workers), "an engine beside each worker"
        )
    name, pid, process = victim_of(fleet, kind, rng)
    if process is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        return name
    process.kill()
    time.sleep(rng.uniform(0.0, 1.0))
    process.start()
    fleet.until(process.addresses if process.role != "worker" else lambda: process.is_alive, name)
    return name


def run(num_kills: int, seed: int) -> None:
    """Kill and restart the processes of one fleet; raise at the first thing that does not hold."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="hotset-fleet-jobs-") as folder,
        running_fleet(
            Path(folder),
            workers=2,
            adapters=_TENANTS,
            kind="instant_stepwise",
            engine=SETTINGS["engine"],
            jobs=SETTINGS["jobs"],
        ) as fleet,
    ):
        clients = [client_of(fleet.tenants[f"tenant-{number}"]) for number in range(_TENANTS)]
        with working(fleet, clients, rng):
            for number in range(num_kills):
                time.sleep(rng.uniform(0.2, 2.0))
                name = kill(fleet, _KINDS[number % len(_KINDS)], rng)
                accepted = sum(job is not None for client in clients for job in client.jobs.values())
                print(f"kill {number + 1:3d}: {name}; {accepted} jobs accepted", flush=True)
        for gateway in _GATEWAYS:
            fleet.until(lambda gateway=gateway: fleet.ready(gateway), gateway)
        finish(fleet, clients)
        with fleet.admin() as admin:
            tries = check(admin, clients)
        print(f"tries of the jobs: {dict(sorted(tries.items()))}")


def finish(fleet: Fleet, clients: list[Client]) -> None:
    """Read every job to its end, through the one gateway or the other."""
    for number, client in enumerate(clients):
        with contextlib.suppress(httpx.HTTPError):
            client.finish(fleet.url(_GATEWAYS[number % 2]))
        client.finish(fleet.url(_GATEWAYS[(number + 1) % 2]))


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    run(arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills: every accepted job has one result, none is lost, none is doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
