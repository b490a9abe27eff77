"""``hotset pool``, ``worker``, ``freeze`` and ``unfreeze``: who serves whom, and whether anything may change."""

import time
from typing import Annotated, Any

import typer

from hotset.cli.client import AdminClient
from hotset.cli.output import print_json, print_table, say, size, warn, warn_unreached
from hotset.cli.session import CLOCK, Json, Yes, admin, confirm
from hotset.core.errors import InvalidRequestError

pools = typer.Typer(no_args_is_help=True, help="Pools: add, list, assign, set, remove.")
workers = typer.Typer(help="Workers: run one, list, cordon, drain, uncordon, pick, remove.")

_POLL_S = 0.5
_NO_WORKER = (
    "No worker has registered: hotset worker runs one, and it does once its engine serves. "
    "The one within hotset serve is in no list here; hotset residency show tells of it."
)
_POOL_COLUMNS = ("pool", "base", "kind", "rank class", "release schedule", "tenants", "workers")
_WORKER_COLUMNS = (
    "worker", "base", "pool", "state", "slots", "free", "resident", "homes", "running", "waiting", "oldest wait",
    "heard", "rank class", "slot", "hardware", "engine",
)  # fmt: skip


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(pools, name="pool")
    root.add_typer(workers, name="worker")
    root.command("freeze")(freeze)
    root.command("unfreeze")(unfreeze)


@pools.command("add")
def add_pool(
    context: typer.Context,
    pool: str,
    base: Annotated[str, typer.Option(help="The base that its workers serve.")],
    dedicated: Annotated[bool, typer.Option("--dedicated", help="For one tenant alone.")] = False,
    rank_class: Annotated[int | None, typer.Option(help="The highest rank that its workers must take.")] = None,
    release_schedule: Annotated[
        str | None, typer.Option(help="When new versions may come, UTC: 'mon-thu 09:00-16:00'; else at any time.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a pool; workers and tenants come to it by `hotset pool assign`."""
    kind = "dedicated" if dedicated else "shared"
    body = {"pool": pool, "base": base, "kind": kind, "rank_class": rank_class, "release_schedule": release_schedule}
    with admin(context) as client:
        answer = client.post("/pools", body)
    _tell(answer, json, f"Added {answer['kind']} pool {pool} of {answer['base']}.")


@pools.command("list")
def list_pools(context: typer.Context, json: Json = False) -> None:
    """List the pools, who is in them, and the reserves that would not survive the loss of a worker."""
    with admin(context) as client:
        found = client.get("/pools")["pools"]
    if json:
        print_json(found)
        return
    rows = [
        (
            row["pool"],
            row["base"],
            row["kind"],
            row["rank_class"],
            row["release_schedule"],
            "all others" if row["tenants"] is None else ", ".join(row["tenants"]),
            ", ".join(row["workers"]),
        )
        for row in found
    ]
    print_table(_POOL_COLUMNS, rows, empty="There is no base yet, and so no pool: hotset base add FOLDER.")
    for warning in (warning for row in found for warning in row["warnings"]):
        warn(f"Warning: {warning}")


@pools.command("assign")
def assign_to_pool(
    context: typer.Context,
    pool: str,
    tenant: Annotated[
        str | None, typer.Option(help="Serve this tenant by the pool's workers, and by no others.")
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Have this worker serve the pool, and no other.")] = None,
    base: Annotated[str | None, typer.Option(help="Which base's, with the pool 'default'.")] = None,
    json: Json = False,
) -> None:
    """Put a tenant or a worker into a pool, out of any other; the pool 'default' is that of all others."""
    if (tenant is None) == (worker is None):
        raise InvalidRequestError("Name a --tenant or a --worker, one of the two.")
    with admin(context) as client:
        answer = client.post(f"/pools/{pool}/assign", {"tenant": tenant, "worker": worker, "base": base})["pools"]
    _tell(answer, json, f"{tenant or worker} is in pool {pool}.")
    for row in answer:
        if tenant and not json and row["pool"] == pool and not row["workers"]:
            warn(f"Warning: pool {pool} has no worker: in a fleet, nothing serves {tenant} until one is assigned.")


@pools.command("set")
def set_pool(
    context: typer.Context,
    pool: str,
    release_schedule: Annotated[str | None, typer.Option(help="When new versions may come, UTC.")] = None,
    no_release_schedule: Annotated[
        bool, typer.Option("--no-release-schedule", help="New versions may come at any time.")
    ] = False,
    json: Json = False,
) -> None:
    """Set when new versions may come to a pool."""
    if (release_schedule is None) != no_release_schedule:
        raise InvalidRequestError("Say --release-schedule or --no-release-schedule, one of the two.")
    with admin(context) as client:
        body = {"release_schedule": release_schedule}
        answer = client.call("POST", f"/pools/{pool}/schedule", body=body)
    _tell(answer, json, f"New versions may come to pool {pool} {release_schedule or 'at any time'}.")


@pools.command("remove")
def remove_pool(context: typer.Context, pool: str, yes: Yes = False, json: Json = False) -> None:
    """Remove a pool that is empty."""
    confirm(f"Remove pool {pool}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/pools/{pool}")
    _tell(answer, json, f"There is no pool {pool} any more.")


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
    _tell(answer, json, f"Worker {worker} takes nothing more; {_left_words(left)}.")
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
    _tell(answer, json, f"{model} of {tenant} (pool {answer['pool']}) {told}; at home: {at_home}.")


@workers.command("remove")
def remove_worker(context: typer.Context, worker: str, yes: Yes = False, json: Json = False) -> None:
    """Forget a worker that is lost for good."""
    confirm(f"Forget worker {worker}?", yes=yes)
    with admin(context) as client:
        answer = client.delete(f"/workers/{worker}")
    _tell(answer, json, f"Worker {worker} is forgotten.")


def freeze(context: typer.Context, json: Json = False) -> None:
    """Stop all loads, evictions and rollouts; what is in a slot goes on being served."""
    with admin(context) as client:
        answer = client.post("/freeze")
    _tell(answer, json, "Frozen: no loads, evictions and rollouts until hotset unfreeze.")


def unfreeze(context: typer.Context, json: Json = False) -> None:
    """Let loads, evictions and rollouts go on."""
    with admin(context) as client:
        answer = client.post("/unfreeze")
    _tell(answer, json, "Loads, evictions and rollouts go on.")


def _put(context: typer.Context, worker: str, verb: str, as_json: bool, sentence: str) -> None:
    with admin(context) as client:
        answer = client.post(f"/workers/{worker}/{verb}")
    _tell(answer, as_json, sentence)


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


def _tell(answer: Any, as_json: bool, sentence: str) -> None:
    if as_json:
        print_json(answer)
    else:
        say(sentence)
        if isinstance(answer, dict):
            warn_unreached(answer)
