"""Load for a fleet whose processes are killed: clients that ask all the time, and clients that leave jobs."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence

import httpx

from tests.acceptance.kill_jobs import Client
from tests.support.fleet import Fleet, ask, own_text
from tests.support.server import TenantInPlace

GATEWAYS = ("g1", "g2")
TOKENS = 200
_JOIN_S = 120.0
#: What a tenant may hear while something is gone.
_OUTAGES = {502, 503, 429}


class Load:
    """Clients that ask all the time, one for each tenant, through one gateway after the other."""

    def __init__(self, fleet: Fleet, tenants: Sequence[TenantInPlace]) -> None:
        self._fleet = fleet
        self._tenants = tenants
        self.outcomes: Counter[str] = Counter()
        #: Of the answers that came whole.
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Ask for the length of the block."""
        stopping = threading.Event()
        threads = [threading.Thread(target=self._ask_on, args=(tenant, stopping)) for tenant in self._tenants]
        with _joined(threads, stopping):
            yield

    def _ask_on(self, tenant: TenantInPlace, stopping: threading.Event) -> None:
        expected = own_text(tenant, TOKENS)
        number = self._tenants.index(tenant)
        while not stopping.is_set():
            number += 1
            began_s = time.monotonic()
            outcome = self._ask(GATEWAYS[number % len(GATEWAYS)], tenant, expected)
            self.outcomes[outcome] += 1
            if outcome == "whole":
                self.seconds.append(time.monotonic() - began_s)
            else:
                stopping.wait(0.1)

    def _ask(self, gateway: str, tenant: TenantInPlace, expected: str) -> str:
        found = self._fleet.processes[gateway].addresses()
        if found is None:
            return "gateway gone"
        try:
            response = ask(found.tenant_url, tenant, max_tokens=TOKENS)
        except httpx.HTTPError:
            return "gateway gone"
        if response.status_code == 200:
            if response.json()["choices"][0]["text"] != expected:
                self.wrong.append(f"{tenant.name} got another answer: {response.text[:200]}")
            return "whole"
        if response.status_code not in _OUTAGES:
            self.wrong.append(f"{tenant.name}: status {response.status_code}: {response.text[:200]}")
        return str(response.json()["error"]["code"])


@contextlib.contextmanager
def leaving_jobs(fleet: Fleet, clients: list[Client], rng: random.Random) -> Generator[None]:
    """Let the clients ask for answers that come later, each through whichever gateway is there, and read them."""
    stopping = threading.Event()
    errors: list[BaseException] = []

    def work(client: Client, own: random.Random) -> None:
        try:
            while not stopping.is_set():
                found = fleet.processes[own.choice(GATEWAYS)].addresses()
                if found is None:
                    stopping.wait(0.1)
                else:
                    client.work(found.tenant_url, own, stopping)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(client, random.Random(rng.random()))) for client in clients]
    with _joined(threads, stopping):
        yield
    if errors:
        raise errors[0]


def read_jobs(fleet: Fleet, clients: list[Client]) -> None:
    """Read every job to its end, through the one gateway or the other."""
    for number, client in enumerate(clients):
        client.finish(fleet.url(GATEWAYS[number % len(GATEWAYS)]))


@contextlib.contextmanager
def _joined(threads: list[threading.Thread], stopping: threading.Event) -> Generator[None]:
    """Run threads for the length of the block, however it is left."""
    for thread in threads:
        thread.daemon = True  # one that hangs must not keep the check from ending
        thread.start()
    try:
        yield
    finally:
        stopping.set()
    for thread in threads:
        thread.join(_JOIN_S)
        assert not thread.is_alive(), "a client still waits for an answer that will not come"
