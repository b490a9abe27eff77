"""Kill -9 a whole server at random moments while it streams, takes pushes and approves; restart; check; go on.

``python -m tests.acceptance.kill_server [--kills N] [--seed S]``: one state folder lives through all the kills.
After each restart the store verifies, the audit chain holds, every version that was ever seen approved still is, no
version is half there, and the tenant's model answers as it always did. Exit status 0 where all of that holds.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from hotset.cli.client import AdminClient
from hotset.core.errors import HotsetError
from tests.support.adapters import make_adapter, tiny_base_shape
from tests.support.server import (
    ALIAS,
    BASE,
    RunningServer,
    bare_server,
    running_server,
    write_config,
)

_APPROVED = ("approved", "active", "standby")
_TENANT = "tenant-0"
#: What a client sees when its server dies under it.
_CUT = (HotsetError, httpx.HTTPError)


class Load:
    """Streams and publishing against one server until it dies."""

    def __init__(self, server: RunningServer, token: str, folders: list[Path]) -> None:
        self._server = server
        self._token = token
        self._folders = folders
        self.num_whole = 0
        self.num_cut = 0
        #: References that the server said were approved.
        self.approved: set[str] = set()
        self._threads = [threading.Thread(target=self._stream) for _ in range(4)]
        self._threads.append(threading.Thread(target=self._publish))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a client waits for a server that is dead"

    def _stream(self) -> None:
        while True:
            try:
                answer(self._server.url, self._token)
            except _CUT:
                self.num_cut += 1
                return
            self.num_whole += 1

    def _publish(self) -> None:
        path = f"/adapters/{_TENANT}/{ALIAS}/versions"
        admin = self._server.admin
        with contextlib.suppress(*_CUT):
            for folder in self._folders:
                version = admin.post(path, {"folder": str(folder), "base": BASE})
                if version["state"] == "verified":
                    version = admin.post(f"{path}/{version['number']}/prove", {})
                if version["state"] == "proved":
                    version = admin.post(f"{path}/{version['number']}/approve", {})
                self.approved.add(version["ref"])


def answer(url: str, token: str) -> str:
    """Return the model's whole streamed answer."""
    body = {"model": ALIAS, "prompt": "a b c", "max_tokens": 40, "stream": True, "temperature": 0}
    headers = {"authorization": f"Bearer {token}"}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, headers=headers, timeout=60) as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
        if response.status_code != 200 or lines[-1:] != ["data: [DONE]"]:
            raise httpx.RemoteProtocolError(f"status {response.status_code}, {len(lines)} events")
    return "".join(line.partition('"text":"')[2].partition('"')[0] for line in lines)


def check(admin: AdminClient, approved: set[str]) -> Counter[str]:
    """Assert what must hold after a restart; return how many versions are in which state."""
    store = admin.post("/store/verify", {})
    assert not store["damaged"], store
    assert not store["missing"], store
    audit = admin.get("/audit/verify")
    assert audit["is_intact"], audit
    versions = admin.get(f"/adapters/{_TENANT}/{ALIAS}")["versions"]
    states = {version["ref"]: version["state"] for version in versions}
    assert sorted(version["number"] for version in versions) == list(range(1, len(versions) + 1))
    lost = {ref for ref in approved if states.get(ref) not in _APPROVED}
    assert not lost, f"approved before the kill, and now: {[(ref, states.get(ref)) for ref in sorted(lost)]}"
    return Counter(states.values())


def run(num_kills: int, seed: int) -> None:
    """Kill and restart one installation; raise at the first thing that does not hold."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="hotset-kills-") as folder:
        root = Path(folder)
        folders = [root / f"version-{number}" for number in range(num_kills + 4)]
        for number, path in enumerate(folders):
            make_adapter(path, tiny_base_shape(), rank=4, seed=100 + number)
        with running_server(root, adapters=1, kind="instant") as server:
            tenant = server.tenants[_TENANT]
            expected = answer(server.url, tenant.token)
        approved = {tenant.ref}
        config = write_config(root, engine={"kind": "instant"})
        for kill in range(num_kills):
            with bare_server(root / "home", config) as server:
                server.process.wait_ready()
                states = check(server.admin, approved)
                assert answer(server.url, tenant.token) == expected
                load = Load(server, tenant.token, folders)
                load.start()
                after_s = rng.uniform(0.0, 1.5)
                time.sleep(after_s)
                server.kill()
                load.join()
                approved |= load.approved
                print(
                    f"kill {kill + 1:3d} after {after_s:.2f} s: {load.num_whole} streams whole, {load.num_cut} cut; "
                    f"versions before it: {dict(states)}"
                )
        with bare_server(root / "home", config) as server:
            server.process.wait_ready()
            print(f"after the last restart: {dict(check(server.admin, approved))}, {len(approved)} seen approved")
            assert answer(server.url, tenant.token) == expected


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    run(arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills: the store verified after each, nothing half there, nothing approved lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
