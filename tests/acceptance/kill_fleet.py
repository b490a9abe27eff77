"""Kill -9 an agent, an engine, a gateway or control at random under load; start it again; check; go on.

``python -m tests.acceptance.kill_fleet [--kills N] [--away S] [--seed S]``: one fleet of control, two gateways and
three workers of two slots lives through it all. Its eight tenants, more than there are slots, ask all the time, and
three of them leave jobs as well, as in `kill_jobs`. Every answer that came whole is its own tenant's, every other one
ended with an error that says so. After each kill everybody is served by every gateway again; and once no job is open
and no lease is left, each worker's residency is, within a heartbeat, what its engine says that it holds. Then control
is away for S seconds, while engines are killed so that known versions come from the trusted store again: every answer
is whole, and, where S allows blocks that are long enough to tell, about as soon as with control. In the end every
accepted job has one result, and the audit log is intact. Exit status 0 where all of that holds.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from hotset.bench.stats import median, percentile
from tests.acceptance.fleet_checks import Settled, settle, wait_answered, wait_served
from tests.acceptance.fleet_load import GATEWAYS, Load, leaving_jobs, read_jobs
from tests.acceptance.kill_jobs import SETTINGS, Client, check, client_of
from tests.support.fleet import Fleet, FleetProcess, running_fleet

_KINDS = ("worker", "engine", "gateway", "control")
_WORKERS, _SLOTS, _TENANTS, _JOB_TENANTS = 3, 2, 8, 3
_BLOCK_S = 60.0
#: A gateway hears of an engine that is gone by the next heartbeat.
_NOTICED_S = 2.0
_RATIO_MAX, _SLACK_S = 2.0, 0.1
#: Shorter blocks have too few answers for a 95th percentile to be judged by.
_JUDGED_FROM_S = 20.0
_SECTIONS = {
    "engine": {"num_slots": _SLOTS},
    "jobs": {**SETTINGS["jobs"], "pause_max_s": 1.0},
    "fleet": {"metrics_port": 0},
    # Its tenants turn over fewer slots than they have adapters for minutes; what bounds that is not what is tried here.
    "worker": {"loads_per_minute": 60_000},
}


def victim_of(fleet: Fleet, kind: str, rng: random.Random) -> tuple[str, int, FleetProcess | None]:
    """Return what to call it, which process to kill, and which one to start again."""
    role = "worker" if kind == "engine" else kind
    process = rng.choice([each for each in fleet.processes.values() if each.role == role])
    if kind != "engine":
        return process.name, process.pid, process
    # The kill before may have been this worker's, whose engine is on its way.
    engines = fleet.until(lambda: psutil.Process(process.pid).children(), f"an engine beside {process.name}")
    return f"engine of {process.name}", rng.choice(engines).pid, None


def kill(fleet: Fleet, kind: str, rng: random.Random) -> str:
    """Kill one process, start it again after a while, and return what it is called."""
    name, pid, process = victim_of(fleet, kind, rng)
    if process is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
        return name
    process.kill()
    time.sleep(rng.uniform(0.0, 1.0))
    process.start()
    return name


def run_kills(fleet: Fleet, clients: list[Client], num_kills: int, rng: random.Random) -> None:
    """Kill and check, so many times; tell of each and of all."""
    settled: list[Settled] = []
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for number in range(num_kills):
        kind = _KINDS[number] if number < len(_KINDS) else rng.choice(_KINDS)
        load = Load(fleet, list(fleet.tenants.values()))
        with load.running(), leaving_jobs(fleet, clients, rng):
            time.sleep(rng.uniform(0.2, 1.5))
            name = kill(fleet, kind, rng)
            time.sleep(1.0)
        assert not load.wrong, load.wrong
        settled.append(settle(fleet))
        outcomes += load.outcomes
        kinds[kind] += 1
        print(
            f"kill {number + 1:3d}: {name}; {dict(load.outcomes)}; served again in {settled[-1].served_s:.1f} s, "
            f"idle in {settled[-1].idle_s:.1f} s, residency agrees in {settled[-1].agrees_s:.1f} s",
            flush=True,
        )
    if settled:
        print(f"killed: {dict(kinds)}; answers: {dict(outcomes)}")
        for name in ("served_s", "idle_s", "agrees_s"):
            seconds = [getattr(each, name) for each in settled]
            print(f"  {name}: median {median(seconds):.2f}, longest {max(seconds):.2f}")


@dataclass(frozen=True)
class Block:
    """What came of some seconds of load."""

    outcomes: Counter[str]
    p50_s: float
    p95_s: float


def run_block(fleet: Fleet, seconds: float) -> Block:
    """Let every tenant ask for so long; every answer must come, and be right."""
    load = Load(fleet, list(fleet.tenants.values()))
    with load.running():
        time.sleep(seconds)
    assert not load.wrong, load.wrong
    assert set(load.outcomes) == {"whole"}, f"answers without a kill under them: {dict(load.outcomes)}"
    return Block(load.outcomes, median(load.seconds), percentile(load.seconds, 95))


def run_away(fleet: Fleet, away_s: float, rng: random.Random) -> None:
    """Let control be away, and one engine after the other begin with an empty store meanwhile."""
    num_blocks = max(2, round(away_s / _BLOCK_S))
    block_s = max(1.0, away_s / num_blocks - _NOTICED_S)
    with_control = run_block(fleet, min(block_s, _BLOCK_S / 2))
    control = fleet.processes["control"]
    control.kill()
    gone_at_s, fetched_before = time.monotonic(), num_fetches(fleet)
    blocks: list[Block] = []
    for _ in range(num_blocks):
        kill(fleet, "engine", rng)  # its store is emptied with its slots, so what it held is cold
        time.sleep(_NOTICED_S)
        wait_answered(fleet)
        blocks.append(run_block(fleet, block_s))
    gone_s, num_fetched = time.monotonic() - gone_at_s, num_fetches(fleet) - fetched_before
    control.start()
    wait_served(fleet)
    num_answers = sum(block.outcomes.total() for block in blocks)
    p95_s, is_judged = median([block.p95_s for block in blocks]), block_s >= _JUDGED_FROM_S
    print(
        f"control away for {gone_s:.0f} s: {num_answers} answers, all whole, {num_fetched:.0f} versions from the "
        f"trusted store; p50 {median([block.p50_s for block in blocks]) * 1000:.0f} ms, p95 {p95_s * 1000:.0f} ms; "
        f"with control p50 {with_control.p50_s * 1000:.0f} ms, p95 {with_control.p95_s * 1000:.0f} ms"
        f"{'' if is_judged else f' (blocks of {block_s:.0f} s: too short to be judged)'}",
        flush=True,
    )
    assert num_fetched > 0, "no version came from the trusted store while control was away"
    assert not is_judged or p95_s <= _RATIO_MAX * with_control.p95_s + _SLACK_S, "control's absence harms hot traffic"


def num_fetches(fleet: Fleet) -> float:
    """Versions that came from the trusted store, asked for or ahead of that, by this start of each worker."""
    total = 0.0
    for process in fleet.processes.values():
        found = process.addresses()
        if process.role == "worker" and found is not None:
            lines = httpx.get(f"{found.admin_url}/metrics", trust_env=False).text.splitlines()
            total += sum(float(line.rpartition(" ")[2]) for line in lines if _is_fetch(line))
    return total


def _is_fetch(line: str) -> bool:
    is_load = line.startswith("hotset_adapter_load_duration_seconds_count{") and 'source_tier="cold"' in line
    is_ahead = line.startswith("hotset_adapter_prefetches_total{") and 'step="fetch"' in line
    return is_load or (is_ahead and 'outcome="done"' in line)


def run(num_kills: int, away_s: float, seed: int) -> None:
    """Put one fleet through everything; raise at the first thing that does not hold."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="hotset-fleet-") as folder,
        running_fleet(
            Path(folder),
            workers=_WORKERS,
            gateways=len(GATEWAYS),
            adapters=_TENANTS,
            kind="instant_stepwise",
            **_SECTIONS,
        ) as fleet,
    ):
        clients = [client_of(fleet.tenants[f"tenant-{number}"]) for number in range(_JOB_TENANTS)]
        run_kills(fleet, clients, num_kills, rng)
        read_jobs(fleet, clients)
        with fleet.admin() as admin:
            tries = check(admin, clients)
        num_jobs = sum(len(client.ends) for client in clients)
        print(f"{num_jobs} jobs accepted, each with one result; tries: {dict(sorted(tries.items()))}")
        if away_s:
            run_away(fleet, away_s, rng)
        with fleet.admin() as admin:
            assert admin.get("/audit/verify")["is_intact"]


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--away", type=float, default=300.0, help="seconds without control after the kills; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began_s = time.monotonic()
    run(arguments.kills, arguments.away, arguments.seed)
    print(
        f"{arguments.kills} kills in {time.monotonic() - began_s:.0f} s: no wrong answer, no lease left, residency as "
        "engines say after each, every job done once"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
