"""``hotset worker``, ``freeze`` and ``unfreeze``: how the workers are, and whether anything may change."""

import time
from typing import Annotated, Any

import typer

from hotset.cli.client import AdminClient
from hotset.cli.output import print_json, print_table, size, tell
from hotset.cli.session import CLOCK, Json, Yes, admin, confirm

workers = typer.Typer(help="Workers: run one, list, cordon, drain, uncordon, pick, remove.")

_POLL_S = 0.5
_NO_WORKER = (
    "No worker has registered: hotset worker runs one, and it does once its engine serves. "
    "The one within hotset serve is in no list here; hotset residency show tells of it."
)
_WORKER_COLUMNS = (
    "worker", "base", "pool", "state", "slots", "free", "resident", "homes", "running", "waiting", "oldest wait",
    "heard", "rank class", "slot", "hardware", "engine",
)  # fmt: skip


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(workers, name="worker")
    root.command("freeze")(freeze)
    root.command("unfreeze")(unfreeze)


@workers.command("list")
def list_workers(context: typer.Context, json: Json = False) -> None:
    """List the workers and how each said that it is."""
    with admin(context) as client:
        found = client.get("/workers")["workers"]
    if json:
        print_json(found)
        return
    print_table(_WORKER_COLUMNS, map(_worker_row, found), empty=_NO_WORKER)


@workers.command("cordon")
def cordon_worker(context: typer.Context, worker: str, json: Json = False) -> None:
    """Send a worker no more requests; it keeps what is in its slots."""
    _put(context, worker, "cordon", json, f"Worker {worker} is cordoned: it gets no more requests.")


@workers.command("drain")
def drain_worker(
    context: typer.Context,
    worker: str,
    wait: Annotated[float, typer.Option(help="Seconds to wait until it has no request left.")] = 0.0,
    json: Json = False,
) -> None:
    """Have a worker take nothing more, so that it may be stopped once it has no request left."""
    with admin(context) as client:
        answer = client.post(f"/workers/{worker}/drain")
        deadline_s = CLOCK.monotonic_s() + wait
        while _num_left(answer) != 0 and CLOCK.monotonic_s() < deadline_s:
            time.sleep(_POLL_S)
            answer |= _look_at(client, worker)
    left = _num_left(answer)
    tell(answer, f"Worker {worker} takes nothing more; {_left_words(left)}.", as_json=json)
    if wait and left != 0:
        raise typer.Exit(1)


@workers.command("uncordon")
def uncordon_worker(context: typer.Context, worker: str, json: Json = False) -> None:
    """Send a cordoned or drained worker requests again."""
    _put(context, worker, "uncordon", json, f"Worker {worker} serves.")


@workers.command("pick")
def show_pick(context: typer.Context, tenant: str, model: str, json: Json = False) -> None:
    """Show which workers a tenant's request for a model would go to now, the best first."""
    with admin(context) as client:
        answer = client.get("/pick", tenant=tenant, model=model)
    named = ", ".join(answer["workers"])
    at_home = ", ".join(answer["homes"]) or "nowhere"
    told = f"would go to {named}" if named else "would be refused, as nobody serves it now"
    tell(answer, f"{model} of {tenant} (pool {answer['pool']}) {told}; at home: {at_home}.", as_json=json)


@workers.command("remove")
def remove_worker(context: typer.Context, worker: str, yes: Yes = False, json: Json = False) -> None:
    """Forget a worker that is lost for good."""
    confirm(f"Forget worker {worker}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/workers/{worker}")
    tell(answer, f"Worker {worker} is forgotten.", as_json=json)


def freeze(context: typer.Context, json: Json = False) -> None:
    """Stop all loads, evictions and rollouts; what is in a slot goes on being served."""
    with admin(context) as client:
        answer = client.post("/freeze")
    tell(answer, "Frozen: no loads, evictions and rollouts until hotset unfreeze.", as_json=json)


def unfreeze(context: typer.Context, json: Json = False) -> None:
    """Let loads, evictions and rollouts go on."""
    with admin(context) as client:
        answer = client.post("/unfreeze")
    tell(answer, "Loads, evictions and rollouts go on.", as_json=json)


def _put(context: typer.Context, worker: str, verb: str, as_json: bool, sentence: str) -> None:
    with admin(context) as client:
        answer = client.post(f"/workers/{worker}/{verb}")
    tell(answer, sentence, as_json=as_json)


def _look_at(client: AdminClient, worker: str) -> dict[str, Any]:
    return next((row for row in client.get("/workers")["workers"] if row["worker"] == worker), {})


def _num_left(worker: dict[str, Any]) -> int | None:
    """Return how many requests the worker has; None where it is lost or has not spoken since control started."""
    running, waiting = worker["num_running"], worker["num_waiting"]
    return None if running is None or waiting is None else running + waiting


def _left_words(num_left: int | None) -> str:
    if num_left is None:
        return "how many requests it has left is not known, as it is not heard"
    return f"{num_left} requests left" if num_left else "it is idle"


def _worker_row(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["worker"],
        row["base"],
        row["pool"],
        _state(row),
        row["num_slots"],
        row["num_free_slots"],
        row["num_resident"],
        row["num_homes"],
        row["num_running"],
        row["num_waiting"],
        f"{row['oldest_wait_s']:.1f} s" if row["num_waiting"] else None,
        None if row["heard_ago_s"] is None else f"{row['heard_ago_s']:.1f} s ago",
        row["rank_class"],
        size(row["slot_bytes"]) if row["slot_bytes"] else None,
        row["hardware_class"],
        row["engine"],
    )


def _state(row: dict[str, Any]) -> str:
    """Return what keeps the worker from serving, or else that it serves."""
    if row["is_lost"]:
        return "lost"
    if row["is_ready"] is False:
        return "no engine"
    return "leaving" if row["is_leaving"] else str(row["state"])
