"""``hotset residency``: who holds which slot, why, since when, and what goes next."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hotset.cli.output import duration, print_json, print_table, say, size, warn_unreached
from hotset.cli.session import Json, admin
from hotset.cli.wording import named
from hotset.residency.slots import LOAD_MIN_S

residency = typer.Typer(no_args_is_help=True, help="The engines' slots: show.")
_SLOT_COLUMNS = (
    "slot",
    "state",
    "version",
    "rank",
    "charged to",
    "hot for",
    "load",
    "leases",
    "used by",
    "bytes",
    "needed in",
)
_TENANT_COLUMNS = ("tenant", "reserve", "limit", "held", "wanting", "loads left", "loads/min", "caused", "suffered")
_BYTE_COLUMNS = ("tenant", "in slots", "in store", "reserve", "limit", "store evictions caused", "suffered")


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    root.add_typer(residency, name="residency")


@residency.command("show")
def show_residency(
    context: typer.Context,
    base: Annotated[str | None, typer.Option(help="Of this base's worker only.")] = None,
    json: Json = False,
) -> None:
    """Show who holds which slot, why, since when, and what goes next.

    Needs a running server: without one there is no engine, and so no slot.
    """
    with admin(context) as client:
        answer = client.get("/residency", base=base)
    if json:
        print_json(answer)
        return
    workers = answer["workers"]
    for worker in workers:
        _tell_worker(worker)
    if not workers:
        say("No worker is linked." if answer["unreached"] else "There is no base yet: hotset base add FOLDER.")
    warn_unreached(answer)


def _tell_worker(worker: dict[str, Any]) -> None:
    if worker["engine"] is None:
        say(f"{named(worker)}: no engine serves it right now.")
        return
    slots, warm = worker["slots"], worker["warm"]
    num_taken = sum(slot["state"] != "empty" for slot in slots)
    say(f"{named(worker)} on {worker['engine']}: {num_taken} of {worker['num_slots']} slots taken.")
    print_table(_SLOT_COLUMNS, map(_slot_row, slots), empty="It has no slots.")
    _tell_width(worker)
    print_table(_TENANT_COLUMNS, map(_tenant_row, worker["tenants"]), empty="No tenant holds a slot or is owed one.")
    say(f"Next: {_next(worker['next'])}")
    for cut in worker["reserves_cut"]:
        say(f"Reserve of {cut['tenant']} cut to {cut['given']} of {cut['reserve_slots']}: all of them pass the slots.")
    _tell_store(worker, warm)


def _tell_width(worker: dict[str, Any]) -> None:
    """Tell what the slots' width costs, and which version it is needed for."""
    width, slot_bytes = worker["rank_class"], worker["slot_bytes"]
    held = [slot for slot in worker["slots"] if slot["slot_bytes"]]
    if slot_bytes and held:
        needed = sum(slot["slot_bytes"] for slot in held)
        say(
            f"Each slot is as large as rank {width}, {size(slot_bytes)}. Slots with versions: {len(held)}, together "
            f"{size(slot_bytes * len(held))}; the versions need {size(needed)} of it."
        )
    by_rank = sorted(((slot["rank"], slot["version"]) for slot in worker["slots"] if slot["rank"]), reverse=True)
    if by_rank:
        (highest, version), others = by_rank[0], [rank for rank, _ in by_rank[1:]]
        if others and others[0] < highest:
            say(f"{version} alone needs rank {highest}; the others need {others[0]} at most.")
        elif highest < width:
            say(f"None of them needs more than rank {highest}.")
        computed = "its own rank" if worker["computes_own_rank"] else "the rank of its slot"
        say(f"A step computes each version at {computed}.")


def _tell_store(worker: dict[str, Any], warm: dict[str, Any]) -> None:
    """Tell what the local store holds, and whose it is."""
    largest = ", ".join(f"{each['version']} {size(each['bytes'])}" for each in warm["largest"])
    held = f"Local store: {size(warm['bytes'])} of {size(warm['bytes_max'])}, versions: {warm['num_versions']}"
    say(held + (f"; largest: {largest}." if largest else "."))
    rows = [_byte_row(tenant) for tenant in worker["tenants"] if tenant["store_bytes"] or tenant["reserve_bytes"]]
    if rows:
        print_table(_BYTE_COLUMNS, rows, empty="")
    for cut in worker["byte_reserves_cut"]:
        given, asked = size(cut["given"]), size(cut["reserve_bytes"])
        say(f"Byte reserve of {cut['tenant']} cut to {given} of {asked}: all of them pass the local store.")


def _slot_row(slot: dict[str, Any]) -> tuple[object, ...]:
    state = f"{slot['state']} ({slot['leaving']})" if slot["leaving"] else slot["state"]
    version, successor = slot["version"], slot["successor"]
    return (
        slot["index"],
        state,
        f"{version} > {successor}" if successor not in (None, version) else version,
        slot["rank"],
        slot["account"],
        duration(slot["hot_for_s"]),
        duration(slot["load_s"]),
        f"{slot['num_running']} + {slot['num_waiting']} waiting" if slot["num_waiting"] else slot["num_running"],
        _counts(slot["users"]),
        None if slot["slot_bytes"] is None else size(slot["slot_bytes"]),
        _needed_in(slot),
    )


def _needed_in(slot: dict[str, Any]) -> str | None:
    """Return when the policy guesses that a hot version is asked for next: the seconds that its worth is made of."""
    if slot["worth"] is None or slot["load_s"] is None:
        return None
    return duration(max(LOAD_MIN_S, slot["load_s"]) / math.exp(slot["worth"]))


def _tenant_row(tenant: dict[str, Any]) -> tuple[object, ...]:
    return (
        tenant["tenant"],
        tenant["reserve"],
        tenant["limit"],
        tenant["held"],
        tenant["num_wanting"],
        f"{tenant['loads_left']:.1f}",
        f"{tenant['loads_per_minute']:g}",
        _counts(tenant["caused"]),
        _counts(tenant["suffered"]),
    )


def _byte_row(tenant: dict[str, Any]) -> tuple[object, ...]:
    return (
        tenant["tenant"],
        size(tenant["slot_bytes"]),
        size(tenant["store_bytes"]),
        size(tenant["reserve_bytes"]),
        size(tenant["limit_bytes"]),
        _counts(tenant["store_caused"]),
        _counts(tenant["store_suffered"]),
    )


def _next(found: dict[str, Any]) -> str:
    slot, leaves = found["slot"], found["leaves"]
    if slot is None:
        return "a tenant without slots would wait, as every slot is in use or owed to its holder."
    if leaves is None:
        return f"a tenant without slots would get slot {slot}; no version has to go for it."
    return f"a tenant without slots would get slot {slot}; {leaves} would go."


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
