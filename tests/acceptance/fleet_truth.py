"""A whole fleet under real traffic: every answer is the one that its model gives when it is alone.

``python -m tests.acceptance.fleet_truth [--base DIR] [--traces DIR] [--minutes M] [--seed S]``: control, two gateways
and three workers as processes of their own, the embedded engine in float32, two workers on a tiny base and one on the
base in DIR (without it all three on the tiny one). 40 adapters of six tenants over four slots a worker, with reserves
and limits, so that idle reserve is lent and claimed back, and cold versions come and go all the time. Popularity and
arrivals are ServeGen's from DIR (without it those of the locality mix); streams and whole answers through both
gateways, bare bases among them, some under an alias that was granted, some with first-token budgets, a few for what
their tenant may not call.

Before that, every model answers every prompt alone: one adapter in an engine of one slot, greedily. An answer of the
fleet must have the same tokens and the same text; a divergence counts as equal only where the two best logits of the
answer alone lie within 1e-4, and such ties are counted. `Hotset-Route` must be right, foreign models not found, and
refusals 429 that say when to come back; those that are cold do come back. Control proves versions on the instant
engine here: what they do is proved by their answers. Exit status 1 for any wrong answer or route, for a lease that is
left, for a residency that is not what its engine says, and where something of all this did not happen.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path

from hotset.bench.stats import percentile
from tests.acceptance.fleet_checks import num_leases, wait_agreement
from tests.acceptance.truth_clients import Clients, Told
from tests.acceptance.truth_metrics import EVICTIONS, LOADS, LOOKUPS, QUEUE, FleetMetrics
from tests.acceptance.truth_plan import Planned, PlanShape, plan
from tests.acceptance.truth_solo import Asked, SoloAnswer, distinct_share, end_token_of, solo_answers
from tests.acceptance.truth_world import RANK_MAX, TENANTS, World, put_in_place, write_world
from tests.support.fleet import Fleet, fleet_of_control
from tests.support.server import write_config

PROMPTS = Path(__file__).parents[2] / "examples" / "prompts.txt"
_NUM_PROMPTS = 4
_WORKERS, _GATEWAYS = ("w1", "w2", "w3"), ("g1", "g2")
_ENGINE = {
    "kind": "embedded",
    "dtype": "float32",
    "num_slots": 4,
    "rank_max": RANK_MAX,
    "num_sequences_max": 16,
    "num_threads": 1,
    "kv_bytes_max": 64 << 20,
}
#: The least there is: what leaves a slot does not stay warm for long, and has to be fetched again.
_SECTIONS = {"engine": _ENGINE, "fleet": {"metrics_port": 0}, "worker": {"warm_bytes_max": 1 << 20}}
#: Within which tenants have everything again that they asked for, once nobody asks any more.
_IDLE_S = 60.0
#: Three engines that load their bases at once.
_START_S = 240.0


def say(text: str) -> None:
    """Tell how it goes."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


@contextlib.contextmanager
def serving(root: Path, world: World) -> Generator[Fleet]:
    """Give a fleet that serves the world."""
    for name in ("control", "others"):
        (root / name).mkdir()
    control_config = write_config(root / "control", engine={"kind": "instant"})
    config = write_config(root / "others", **_SECTIONS)
    with fleet_of_control(root / "home", config, control_config=control_config) as fleet:
        with fleet.admin() as admin:
            put_in_place(admin, world)
        say(f"{len(world.approved)} versions of {len(TENANTS)} tenants are approved")
        for number, name in enumerate(_WORKERS):
            is_large = "large" in world.bases and number == len(_WORKERS) - 1
            fleet.add("worker", name, "--base", "large" if is_large else "tiny")
        for name in _GATEWAYS:
            fleet.add("gateway", name)
        fleet.wait_complete(_START_S)
        yield fleet


async def ask_all(fleet: Fleet, clients: Clients, requests: list[Planned]) -> FleetMetrics:
    """Ask everything; return what was counted."""
    found = {name: process.addresses() for name, process in fleet.processes.items()}
    pages = {name: each.admin_url for name, each in found.items() if each is not None and name != "control"}
    metrics = FleetMetrics(pages)
    watching = asyncio.create_task(metrics.watch())
    await clients.run(requests, {name: fleet.url(name) for name in _GATEWAYS})
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    return metrics


def tell(told: Told, metrics: FleetMetrics, num_requests: int) -> None:
    """Print what came of it all."""
    answers = told.answers
    print(f"\n{num_requests} requests: {dict(told.outcomes.most_common())}; ties within 1e-4 count as equal")
    print(
        f"  latest {told.late_s:.1f} s after its time; first token of streams p50 {_ms(told, 50)}, p95 {_ms(told, 95)}"
    )
    print(f"  refusals by code: {dict(told.refusals)}; came back when told to, then: {dict(told.returned)}")
    for kind in ("gateway", "base", "tenant", "lane", "way"):
        print(f"  answers by {kind}: {dict(sorted((v, n) for (k, v), n in answers.items() if k == kind))}")
    asked = [n for (kind, _), n in answers.items() if kind == "model"]
    print(f"  models that answered: {len(asked)}; most by one {max(asked, default=0)}, least {min(asked, default=0)}")
    print(f"lookups by tier: {metrics.sums(LOOKUPS, 'tier')}; by worker: {metrics.lookups_by_process()}")
    for title, name, label in (
        ("loads by source tier", LOADS, "source_tier"),
        ("wait for dispatch by lane", QUEUE, "lane"),
    ):
        print(f"{title}:", *metrics.histogram(name, label), sep="\n  ")
    oldest = {lane: round(age_s, 2) for lane, age_s in metrics.oldest_s.items()}
    print(f"oldest request that was seen to wait, by lane, in seconds: {oldest or 'none'}")
    print(f"evictions by cause: {metrics.sums(EVICTIONS, 'cause')}")


def _ms(told: Told, share: float) -> str:
    return f"{percentile(told.first_token_s, share) * 1000:.0f} ms" if told.first_token_s else "none"


def unexercised(world: World, told: Told, metrics: FleetMetrics) -> list[str]:
    """Return what should have happened and did not."""
    answers, evictions = told.answers, metrics.sums(EVICTIONS, "cause")
    lookups = metrics.lookups_by_process()
    happened: Mapping[str, object] = {
        **{f"answers through {name}": answers["gateway", name] for name in _GATEWAYS},
        **{f"answers of bare {name}": answers["model", f"bare {name}"] for name in world.bases},
        **{f"answers to {name}": answers["tenant", name] for name in TENANTS},
        **{f"requests at {name}": lookups.get(name) for name in _WORKERS},
        **{f"answers by way of {name}": answers["way", name] for name in ("stream", "whole")},
        **{f"evictions for {cause}": evictions.get(cause) for cause in ("reserve", "borrow", "own")},
        **{
            f"loads of {tier} versions": metrics.sums(f"{LOADS}_count", "source_tier").get(tier)
            for tier in ("cold", "warm")
        },
        "refusals of foreign models": told.outcomes["not found"],
    }
    return [name for name, found in happened.items() if not found]


def run(root: Path, arguments: argparse.Namespace) -> bool:
    """Run the whole check; return whether all was as it must be."""
    rng = random.Random(arguments.seed)
    prompts = PROMPTS.read_text(encoding="utf-8").splitlines()[:_NUM_PROMPTS]
    world = write_world(root, arguments.base, arguments.adapters)
    solo: dict[Asked, SoloAnswer] = solo_answers(world, prompts, arguments.tokens, say)
    alone, all_of_them = distinct_share(solo)
    say(f"{all_of_them} answers alone, {alone} of them unlike any other model's to the same prompt")
    shape = PlanShape(arguments.minutes, arguments.rate, len(prompts), _GATEWAYS, arguments.traces)
    requests = plan(world, shape, rng)
    end_tokens = {base.name: end_token_of(base.folder) for base in world.bases.values()}
    clients = Clients(world, prompts, solo, end_tokens, arguments.tokens)
    with serving(root, world) as fleet:
        say(f"the fleet serves; {len(requests)} requests in {arguments.minutes:g} minutes")
        metrics = asyncio.run(ask_all(fleet, clients, requests))
        fleet.until(lambda: num_leases(fleet) == 0, "the end of every lease", _IDLE_S)
        wait_agreement(fleet, time.monotonic(), world.approved)
    tell(clients.told, metrics, len(requests))
    print("no lease is left; each worker's residency is what its engine says that it holds")
    missing = unexercised(world, clients.told, metrics)
    for line in [*clients.told.wrong[:20], *(f"there were no {name}" for name in missing)]:
        print(f"WRONG: {line}")
    print(f"{len(clients.told.wrong)} wrong; {clients.told.outcomes['tie']} ties")
    return not clients.told.wrong and not missing


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="folder of a second, larger base")
    parser.add_argument("--traces", type=Path, help="folder of the public traces")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--adapters", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hotset-truth-") as folder:
        return 0 if run(Path(folder), arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
