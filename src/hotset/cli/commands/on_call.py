"""``hotset explain``, ``usage`` and ``top``: what became of a request, who used what, what goes on now."""

import csv
import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from hotset.cli.durations import parse_duration_s
from hotset.cli.output import duration, moment, print_json, print_pairs, print_table, warn_unreached
from hotset.cli.session import Json, admin
from hotset.cli.top_view import top_view

_USAGE_COLUMNS = (
    "tenant",
    "adapter",
    "requests",
    "refused",
    "prompt_tokens",
    "completion_tokens",
    "loads",
    "load_seconds",
    "slot_seconds",
)
_REFRESH_S = 1.0
#: Of a log entry, what is told in other words.
_REWORDED = (
    "expected_s",
    *("queue_s", "load_s", "first_token_s", "total_s", "alias", "base", "version", "waits", "evicted", "loaded"),
    *("at_workers", "unreached"),
)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.command("explain")(explain)
    root.command("usage")(usage)
    root.command("top")(top)


def explain(context: typer.Context, request_id: str, json: Json = False) -> None:
    """Say what became of a request: route, lane, waits by stage, who evicted its adapter, outcome; never a prompt."""
    with admin(context) as client:
        entry = client.get(f"/requests/{request_id}")
    if json:
        print_json(entry)
        return
    told = {name: moment(value) if name == "at" else value for name, value in entry.items() if name not in _REWORDED}
    print_pairs(
        {**told, **_stages(entry), **_tries(entry), "evicted": _eviction(entry), "loaded": _load(entry)}.items()
    )
    warn_unreached(entry)


def _stages(entry: Mapping[str, Any]) -> dict[str, str | None]:
    waits = entry["waits"]
    return {name.removesuffix("_s"): duration(waits[name]) for name in waits}


def _tries(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return what became of it at each worker, where it came to several or was refused."""
    tries = entry["at_workers"]
    if len(tries) == 1 and not tries[0]["code"]:
        return {}
    return {f"at {each['worker'] or 'the worker'}": _try(each) for each in tries}


def _try(each: Mapping[str, Any]) -> str:
    if each["waited_s"] is None:
        return "waits"
    return f"{each['code'] or 'dispatched'} after {duration(each['waited_s'])}"


def _eviction(entry: Mapping[str, Any]) -> str | None:
    found = entry["evicted"]
    if found is None:
        return None
    room = f" to make room for {found['made_room_for']}" if found["made_room_for"] else ""
    return f"{moment(found['at_s'])} ({found['cause']}) by {found['by'] or 'nobody'}{room}"


def _load(entry: Mapping[str, Any]) -> str | None:
    found = entry["loaded"]
    if found is None:
        return None
    return f"{moment(found['at_s'])} from the {found['tier']} tier in {duration(found['seconds'])}"


def usage(
    context: typer.Context,
    since: Annotated[str | None, typer.Option(help="Of the last 30m, 12h or 90d, whole hours; all by default.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header.")] = False,
    json: Json = False,
) -> None:
    """Report requests, tokens, loads and slot time by tenant and adapter."""
    query = {"tenant": tenant, "last_s": None if since is None else int(parse_duration_s(since))}
    with admin(context) as client:
        answer = client.get("/usage", **query)
    rows = answer["rows"]
    if json:
        print_json(answer)
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, _USAGE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        cells = [[_cell(row[name]) for name in _USAGE_COLUMNS] for row in rows]
        columns = [name.replace("_", " ") for name in _USAGE_COLUMNS]
        print_table(columns, cells, empty="Nothing was used yet.")
    if not json:
        warn_unreached(answer)


def _cell(value: object) -> object:
    return f"{value:.2f}" if isinstance(value, float) else value


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print what goes on now, and end.")] = False,
    json: Json = False,
) -> None:
    """Show what goes on, each second anew: workers, slots, queues, first tokens by tenant, loads, evictions, refusals.

    Needs a running server. Ends with Ctrl-C.
    """
    with admin(context) as client:
        if json:
            print_json(client.get("/top"))
            return
        if once:
            Console().print(top_view(client.get("/top")))
            return
        with Live(top_view(client.get("/top")), auto_refresh=False) as live:
            while True:
                time.sleep(_REFRESH_S)
                live.update(top_view(client.get("/top")), refresh=True)
