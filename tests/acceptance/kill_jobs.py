"""Kill -9 a whole server at random moments while it accepts, runs and answers jobs; restart; go on; count at the end.

``python -m tests.acceptance.kill_jobs [--kills N] [--seed S]``: three tenants over two slots keep asking for background
responses and for chats that may be answered later, each under an Idempotency-Key of its own, and repeat what they got
no answer to. Exit status 0 where every accepted job ended with one result that never changed, no request led to two
jobs, no job that a client was told of is gone, and each answer is the one its tenant's model gives.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hotset.cli.client import AdminClient
from hotset.core.ids import EngineName
from hotset.engines.instant import instant_text
from tests.support.server import ALIAS, RunningServer, TenantInPlace, bare_server, running_server, write_config

_TENANTS = 3
_TOKENS = 20
_END_S = 180.0
_OUTAGES = (502, 503)
_ENDS = ("completed", "failed", "cancelled", "expired")
SETTINGS: dict[str, dict[str, Any]] = {
    "engine": {"kind": "instant_stepwise", "num_slots": 2},
    "jobs": {"poll_s": 0.1, "lease_s": 1.0, "pause_min_s": 0.1, "attempts_max": 50, "per_tenant_max": 100_000},
}


@dataclass
class Client:
    """One tenant's requests, over all lives of the server."""

    token: str
    #: What its model answers, whatever it is asked.
    expected: str
    #: Idempotency-Key → the job that its request is; None while nobody said.
    jobs: dict[str, str | None] = field(default_factory=dict)
    #: Job → its whole final state, as first read.
    ends: dict[str, Any] = field(default_factory=dict)
    num_keys: int = 0

    def work(self, url: str, rng: random.Random, stopping: threading.Event) -> None:
        """Ask and read until the server is gone, or until told to stop."""
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=30) as http:
            try:
                while not stopping.is_set():
                    if rng.random() < 0.5 and self.jobs:
                        self._read(http, rng.choice(list(self.jobs.values())))
                    else:
                        self._ask(http, self._next_key(rng))
                    time.sleep(rng.uniform(0.0, 0.1))
            except httpx.HTTPError:
                return

    def _next_key(self, rng: random.Random) -> str:
        """A request that nobody answered yet, to repeat it; else a new one."""
        open_keys = [key for key, job in self.jobs.items() if job is None]
        if open_keys and rng.random() < 0.5:
            return rng.choice(open_keys)
        key = f"key-{self.num_keys}"
        self.num_keys += 1
        self.jobs[key] = None
        return key

    def _ask(self, http: httpx.Client, key: str) -> None:
        headers = {"idempotency-key": key}
        prompt = f"{key} says"
        if int(key.rpartition("-")[2]) % 2:
            body: dict[str, Any] = {"model": ALIAS, "input": prompt, "background": True, "max_output_tokens": _TOKENS}
            answer = http.post("/v1/responses", json=body, headers=headers)
            accepted = 200
        else:
            messages = [{"role": "user", "content": prompt}]
            body = {"model": ALIAS, "messages": messages, "max_tokens": _TOKENS}
            headers |= {"prefer": "respond-async", "hotset-first-token-budget-ms": "1"}
            answer = http.post("/v1/chat/completions", json=body, headers=headers)
            if answer.status_code == 200:
                del self.jobs[key]  # answered at once: then it is no job
                return
            accepted = 202
        if answer.status_code in _OUTAGES:
            return  # asked again later
        assert answer.status_code == accepted, answer.text
        job = answer.json()["id"]
        assert self.jobs[key] in (None, job), f"{key} led to two jobs"
        self.jobs[key] = job

    def _read(self, http: httpx.Client, job: str | None) -> None:
        if job is None:
            return
        answer = http.get(f"/v1/jobs/{job}")
        if answer.status_code in _OUTAGES:
            return
        assert answer.status_code == 200, f"{job} was accepted and is gone: {answer.text}"
        found = answer.json()
        if found["status"] in _ENDS:
            assert self.ends.setdefault(job, found) == found, f"{job} had one result, and then another"

    def unread(self) -> list[str]:
        """Jobs that were accepted and not read to their end."""
        return [job for job in self.jobs.values() if job is not None and job not in self.ends]

    def finish(self, url: str) -> None:
        """Ask again for what got no answer, and read every job to its end."""
        headers = {"authorization": f"Bearer {self.token}"}
        deadline_s = time.monotonic() + _END_S
        with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
            while open_keys := [key for key, job in self.jobs.items() if job is None]:
                assert time.monotonic() < deadline_s, f"{len(open_keys)} requests are never accepted"
                self._ask(http, open_keys[0])
            while left := self.unread():
                assert time.monotonic() < deadline_s, f"{len(left)} accepted jobs never ended, such as {left[0]}"
                for job in left:
                    self._read(http, job)
                time.sleep(0.1)


def client_of(tenant: TenantInPlace) -> Client:
    """A client that knows what its model's answers look like."""
    text = "".join(instant_text(EngineName(tenant.engine_name), place) for place in range(_TOKENS))
    return Client(tenant.token, text)


def load(server: RunningServer, clients: list[Client], rng: random.Random, seconds: float) -> None:
    """Let every client work twice at once until the server is killed."""
    errors: list[BaseException] = []

    def work(client: Client, seed: float) -> None:
        try:
            client.work(server.url, random.Random(seed), threading.Event())
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(client, rng.random())) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    server.kill()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a client waits for a server that is dead"
    if errors:
        raise errors[0]


def check(admin: AdminClient, clients: list[Client]) -> Counter[str]:
    """Assert that there are just the jobs that clients know of, each completed; return how many tries they took."""
    tries: Counter[str] = Counter()
    for number, client in enumerate(clients):
        listed = admin.get("/jobs", tenant=f"tenant-{number}", limit=1000)["jobs"]
        known = [job for job in client.jobs.values() if job is not None]
        assert len(set(known)) == len(known), "two requests led to one job"
        if len(listed) < 1000:
            assert {row["id"] for row in listed} == set(known), "there are jobs that no request led to"
        not_completed = [row for row in client.ends.values() if row["status"] != "completed"]
        assert not not_completed, not_completed[:3]
        assert {answer_text(row["answer"]) for row in client.ends.values()} <= {client.expected}
        tries.update(str(row["attempts"]) for row in client.ends.values())
    return tries


def answer_text(answer: dict[str, Any]) -> str:
    """The text of a chat completion or of a response."""
    if answer["object"] == "response":
        return str(answer["output"][0]["content"][0]["text"])
    return str(answer["choices"][0]["message"]["content"])


def run(num_kills: int, seed: int) -> None:
    """Kill and restart one installation; raise at the first thing that does not hold."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="hotset-job-kills-") as folder:
        root = Path(folder)
        engine, jobs = SETTINGS["engine"], SETTINGS["jobs"]
        with running_server(root, adapters=_TENANTS, kind=engine["kind"], engine=engine, jobs=jobs) as server:
            clients = [client_of(server.tenants[f"tenant-{number}"]) for number in range(_TENANTS)]
        config = write_config(root, engine=engine, jobs=jobs)
        for kill in range(num_kills):
            with bare_server(root / "home", config) as server:
                after_s = rng.uniform(0.0, 3.0)
                load(server, clients, rng, after_s)
            accepted = sum(job is not None for client in clients for job in client.jobs.values())
            read = sum(len(client.ends) for client in clients)
            print(
                f"kill {kill + 1:3d} after {after_s:.2f} s: {accepted} jobs accepted, {read} read to their end",
                flush=True,
            )
        with bare_server(root / "home", config) as server:
            server.process.wait_ready()
            for client in clients:
                client.finish(server.url)
            tries = check(server.admin, clients)
            print(f"tries of the jobs: {dict(sorted(tries.items()))}")


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
