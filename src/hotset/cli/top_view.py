"""How `hotset top` looks: what the admin API answers, as Rich renders it. Colours by state only."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hotset.cli.output import duration
from hotset.cli.wording import named

_COLOURS = {
    "hot": "green",
    "loading": "yellow",
    "closing": "magenta",
    "unloading": "magenta",
    "unknown": "red",
    "empty": "dim",
}
#: Tenants that are shown: the slowest.
_TENANTS_MAX = 12


def top_view(answer: Mapping[str, Any]) -> RenderableType:
    """Return one frame."""
    parts: list[RenderableType] = [_head(answer)]
    for worker in answer["workers"]:
        parts += [Text(), _worker_line(worker), _slots(worker["slots"])]
    parts += [Text(), _tenants(answer) if answer["tenants"] else Text("no first token in the last minute")]
    parts += [
        Text(f"not reached: {each['role']} {each['name']}: {each['reason']}", "red") for each in answer["unreached"]
    ]
    return Group(*parts)


def _head(answer: Mapping[str, Any]) -> Text:
    each = answer["per_minute"]
    counts = ", ".join(f"{each.get(name, 0)} {name}" for name in ("requests", "refusals", "loads", "evictions"))
    waiting = ", ".join(
        f"{lane['num_waiting']} {lane['lane']} (oldest {duration(lane['oldest_s'])})" for lane in answer["queue"]
    )
    efficiency = answer["batch_efficiency"]
    lines = [
        f"{answer['in_flight']} in flight; last minute: {counts}",
        *(_gateway(gateway) for gateway in answer["gateways"]),
        f"waiting: {waiting or 'nobody'}; batch efficiency: {'-' if efficiency is None else format(efficiency, '.2f')}",
    ]
    return Text("\n".join(lines))


def _gateway(gateway: Mapping[str, Any]) -> str:
    each = gateway["per_minute"]
    counts = ", ".join(f"{each.get(name, 0)} {name}" for name in ("requests", "refusals"))
    return f"  by {gateway['gateway']}: {gateway['in_flight']} in flight; {counts}"


def _worker_line(worker: Mapping[str, Any]) -> Text:
    if worker["engine"] is None:
        return Text(f"{named(worker)}: no engine serves it", style="red")
    places = f"{worker['num_running']} of {worker['num_places']} places taken, {worker['num_waiting']} waiting"
    return Text(f"{named(worker)} on {worker['engine']}: {places}", style="bold")


def _slots(slots: list[Mapping[str, Any]]) -> Table:
    table = Table("slot", "state", "version", "charged to", "running", "waiting", box=None, pad_edge=False)
    for number, slot in enumerate(slots):
        table.add_row(
            str(number),
            Text(slot["state"], style=_COLOURS.get(slot["state"], "")),
            Text(slot["version"] or "-"),
            Text(slot["account"] or "-"),
            str(slot["num_running"]),
            str(slot["num_waiting"]),
        )
    return table


def _tenants(answer: Mapping[str, Any]) -> Table:
    table = Table("tenant", "first token p50", "p95", "", box=None, pad_edge=False)
    for tenant in answer["tenants"][:_TENANTS_MAX]:
        is_worst = tenant["tenant"] == answer["worst_tenant"]
        table.add_row(
            Text(tenant["tenant"]),
            duration(tenant["first_token_p50_s"]),
            duration(tenant["first_token_p95_s"]),
            "worst" if is_worst else "",
        )
    return table
