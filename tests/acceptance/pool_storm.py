"""A tenant in a dedicated pool beside a storm in the shared one: measure what it feels of it, and that nothing crosses.

``python -m tests.acceptance.pool_storm [--rounds N] [--seconds S]``: control, a gateway and three workers with the
fake engine, as slow as a real one. Worker w3 is a pool of its own for tenant-0. Each round has four blocks: `calm`
(tenant-0 alone), `busy` (24 clients keep to 6 of the other tenants, whose adapters fit the 8 slots of the shared pool),
`storm` (they rotate through 20 tenants with an adapter each) and `mixed` (the same storm with tenant-0 in the shared
pool: what a pool of its own is for). On one machine all of them share processors, and the gateway; so the storm is held
against `busy`. Exit status 0 where the upper 95% bound of the ratio of the two p95 times to first token is at most
1.25, and no request was to go to a wrong worker.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx

from hotset.bench.stats import median, percentile, upper_bound
from tests.support.fleet import Fleet, running_fleet
from tests.support.server import TenantInPlace

_VICTIM, _OWN, _NUM_TENANTS = "tenant-0", "w3", 21
_NUM_VICTIM_CLIENTS, _NUM_STORM_CLIENTS = 2, 24
_RATIO_MAX = 1.25
_SIDES = ("calm", "busy", "storm", "mixed")
_NUM_BUSY_TENANTS = 6
#: A change reaches every holder, and heartbeats tell what follows from it.
_SETTLE_S = 3.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Block:
    """What came of some seconds."""

    first_token_s: list[float] = field(default_factory=list)
    victim: Counter[int] = field(default_factory=Counter)
    storm: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def first_token_s(client: httpx.Client, url: str, tenant: TenantInPlace) -> tuple[int, float]:
    """Return the status, and the seconds until the first word of a streamed answer, which is read to its end."""
    body = {"model": "adapter", "prompt": "a b c", "max_tokens": 16, "stream": True}
    headers = {"authorization": f"Bearer {tenant.token}"}
    began_s, first_s = time.monotonic(), None
    with client.stream("POST", f"{url}/v1/completions", json=body, headers=headers, timeout=60) as response:
        for line in response.iter_lines():
            if first_s is None and line.startswith("data: {") and '"text":""' not in line:
                first_s = time.monotonic() - began_s
    return response.status_code, first_s if first_s is not None else time.monotonic() - began_s


def ask_on(url: str, tenants: list[TenantInPlace], stop: Event, seed: int, statuses: Counter[int]) -> list[float]:
    """Ask one request after another for one of the tenants until told to stop; return what the first tokens took."""
    rng, seconds = random.Random(seed), list[float]()
    with httpx.Client() as client:
        while not stop.is_set():
            status, took_s = first_token_s(client, url, rng.choice(tenants))
            statuses[status] += 1
            if status == 200:
                seconds.append(took_s)
            else:
                time.sleep(0.05)
    return seconds


def storm(
    url: str, tenants: list[TenantInPlace], begun: Event, stop: Event, seed: int, told: "Queue[Counter[int]]"
) -> None:
    """Ask with many clients at once: in a process of its own, so that they take no turn from those that measure."""
    statuses = [Counter[int]() for _ in range(_NUM_STORM_CLIENTS)]
    with ThreadPoolExecutor(_NUM_STORM_CLIENTS) as clients:
        for number, counts in enumerate(statuses):
            clients.submit(ask_on, url, tenants, stop, seed * 1000 + number, counts)
        while not stop.is_set() and sum(map(Counter.total, statuses)) < _NUM_STORM_CLIENTS:
            time.sleep(0.05)
        begun.set()
    told.put(sum(statuses, Counter[int]()))


def watch(fleet: Fleet, block: Block, stop: Event, *, is_mixed: bool) -> None:
    """Look at the workers, and at where requests would go, until told to stop."""
    while not stop.wait(0.5):
        with fleet.admin() as admin:
            own = next(row for row in admin.get("/workers")["workers"] if row["worker"] == _OWN)
            picked = {name: admin.get("/pick", tenant=name, model="adapter")["workers"] for name in fleet.tenants}
        expected = 0 if is_mixed else _NUM_VICTIM_CLIENTS
        if (own["num_resident"] or 0) > 1 or (own["num_running"] or 0) + (own["num_waiting"] or 0) > expected:
            block.wrong.append(f"{_OWN} holds {own['num_resident']} versions, runs {own['num_running']}")
        for name, workers in picked.items():
            is_own = name == _VICTIM and not is_mixed
            if not workers or (set(workers) != {_OWN} if is_own else _OWN in workers):
                block.wrong.append(f"{name} would go to {workers}")


def run_block(fleet: Fleet, side: str, seconds: float, seed: int) -> Block:
    """Run one block and return what came of it."""
    put_into(fleet, "default" if side == "mixed" else "own")
    block, begun, stop, told = Block(), _SPAWN.Event(), _SPAWN.Event(), _SPAWN.Queue()
    url, victim = fleet.url("g1"), fleet.tenants[_VICTIM]
    others = [tenant for name, tenant in sorted(fleet.tenants.items()) if name != _VICTIM]
    others = others[:_NUM_BUSY_TENANTS] if side == "busy" else others
    arguments = (url, others, begun, stop, seed, told)
    stormer = None if side == "calm" else _SPAWN.Process(target=storm, args=arguments, daemon=True)
    if stormer is not None:
        stormer.start()
        assert begun.wait(120), "the storm did not begin"
    time.sleep(_SETTLE_S)
    with ThreadPoolExecutor(_NUM_VICTIM_CLIENTS + 1) as threads:
        asking = [
            threads.submit(ask_on, url, [victim], stop, number, block.victim) for number in range(_NUM_VICTIM_CLIENTS)
        ]
        watching = threads.submit(watch, fleet, block, stop, is_mixed=side == "mixed")
        time.sleep(seconds)
        stop.set()
        block.first_token_s = [each for asked in asking for each in asked.result()]
        watching.result()
    if stormer is not None:
        block.storm = told.get(timeout=90)
        stormer.join()
    return block


def put_into(fleet: Fleet, pool: str) -> None:
    """Put the victim into a pool, and have its version warm and hot there before anything is measured."""
    body: dict[str, Any] = {"tenant": _VICTIM} if pool == "own" else {"tenant": _VICTIM, "base": "tiny"}
    with fleet.admin() as admin:
        admin.post(f"/pools/{pool}/assign", body)
    time.sleep(_SETTLE_S)
    with httpx.Client() as client:
        fleet.until(
            lambda: first_token_s(client, fleet.url("g1"), fleet.tenants[_VICTIM])[0] == 200, "the victim's answer"
        )
    time.sleep(_SETTLE_S)


def set_up(fleet: Fleet) -> None:
    """Make the pool, and wait until every version has a home."""
    with fleet.admin() as admin:
        admin.post("/pools", {"pool": "own", "base": "tiny", "kind": "dedicated"})
        admin.post("/pools/own/assign", {"worker": _OWN})
        fleet.until(
            lambda: all(admin.get("/pick", tenant=name, model="adapter")["homes"] for name in fleet.tenants), "homes"
        )


def run(rounds: int, seconds: float) -> bool:
    """Run all blocks, tell what came of them, and return whether it is as it should be."""
    p95: dict[str, list[float]] = {side: [] for side in _SIDES}
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="hotset-pools-") as folder,
        running_fleet(Path(folder), workers=3, gateways=1, adapters=_NUM_TENANTS, kind="fake") as fleet,
    ):
        set_up(fleet)
        for number in range(rounds):
            for side in _SIDES:
                block = run_block(fleet, side, seconds, number)
                p95[side].append(percentile(block.first_token_s, 95))
                wrong += block.wrong
                print(
                    f"round {number + 1} {side:5}: p50 {median(block.first_token_s) * 1000:.0f} ms, "
                    f"p95 {p95[side][-1] * 1000:.0f} ms; victim {dict(block.victim)}, storm {dict(block.storm)}",
                    flush=True,
                )
    for side, base in (("busy", "calm"), ("storm", "calm"), ("storm", "busy"), ("mixed", "busy")):
        ratios = [over / under for over, under in zip(p95[side], p95[base], strict=True)]
        print(f"p95 of {side} over {base}: median {median(ratios):.2f}, upper 95% bound {upper_bound(ratios):.2f}")
    for line in sorted(set(wrong)):
        print(f"WRONG: {line}")
    ratios = [storm / busy for storm, busy in zip(p95["storm"], p95["busy"], strict=True)]
    return not wrong and upper_bound(ratios) <= _RATIO_MAX


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="at least 2")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    return 0 if run(arguments.rounds, arguments.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
