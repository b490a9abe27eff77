"""What must hold of a fleet again after one of its processes was killed, and how soon it did."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import httpx

from tests.acceptance.fleet_load import GATEWAYS
from tests.support.fleet import Fleet, ask, own_text
from tests.support.server import TenantInPlace

#: A worker asks its engine every second and tells control every second.
HEARTBEAT_S = 1.0
#: Until every worker has told of an account asked for since: two heartbeats, and the rest for a machine that is busy.
_TOLD_WITHIN_S = 30.0
#: From then on nothing moves, so that what differs is no matter of time; this is for an account just overtaken.
_AGREES_WITHIN_S = 2 * HEARTBEAT_S
_MOVING = ("loading", "unloading", "unknown")
#: States in which a slot's version is in the engine.
_HELD = ("hot", "closing")
_OPEN_JOBS = ("queued", "running")


@dataclass(frozen=True)
class Settled:
    """How long it took after a kill."""

    #: Until everybody was served by every gateway.
    served_s: float
    #: From then until no job was open and no lease was left.
    idle_s: float
    #: From then until every worker's residency was what its engine said that it holds.
    agrees_s: float


def settle(fleet: Fleet) -> Settled:
    """Return once the fleet is as it was before a kill; raise where it does not come to be."""
    began_s = time.monotonic()
    wait_served(fleet)
    served_s = time.monotonic()
    fleet.until(lambda: num_open_jobs(fleet) == 0 and num_leases(fleet) == 0, "the end of every job and lease")
    idle_s = time.monotonic()
    agrees_s = wait_agreement(fleet, idle_s, {tenant.ref for tenant in fleet.tenants.values()})
    return Settled(served_s - began_s, idle_s - served_s, agrees_s - idle_s)


def wait_served(fleet: Fleet) -> None:
    """Return once every process serves, and every tenant is answered by every gateway."""
    fleet.wait_complete()
    wait_answered(fleet)


def wait_answered(fleet: Fleet) -> None:
    """Return once every tenant is answered by every gateway, whether or not control is there."""
    for gateway in GATEWAYS:
        for tenant in fleet.tenants.values():
            fleet.until(lambda g=gateway, t=tenant: _is_answered(fleet, g, t), f"{tenant.name} at {gateway}")


def wait_agreement(fleet: Fleet, since_s: float, approved: Collection[str]) -> float:
    """Return when each worker's residency was what its engine said, of an account asked for after `since_s`.

    Raises:
        AssertionError: they differ after a heartbeat without any request, or an engine holds what was never approved.
    """
    num_workers = sum(process.role == "worker" for process in fleet.processes.values())
    late_at_s = since_s + _TOLD_WITHIN_S
    while True:
        now_s = time.monotonic()
        workers = residency(fleet)
        told = [worker for worker in workers if _is_told_since(worker, now_s - since_s)]
        differing = [worker for worker in told if difference(worker)]
        for worker in told:
            strange = set(worker["inventory"]["loaded"]).difference(approved)
            assert not strange, f"an engine holds {strange}, which nobody approved"
        if len(told) == num_workers:
            if not differing:
                return now_s
            late_at_s = min(late_at_s, now_s + _AGREES_WITHIN_S)
        assert now_s < late_at_s, (
            f"{len(told)} of {num_workers} workers told what their engines hold; "
            f"differing: {[difference(worker) for worker in differing]}"
        )
        time.sleep(0.05)


def difference(worker: dict[str, Any]) -> str:
    """Return how a worker's residency differs from what its engine said; empty where it does not."""
    slots, inventory = worker["slots"], worker["inventory"]
    moving = [slot["state"] for slot in slots if slot["state"] in _MOVING]
    held = sorted(slot["version"] for slot in slots if slot["state"] in _HELD)
    if moving or held != inventory["loaded"] or inventory["num_running"]:
        return f"slots hold {held} ({moving}); the engine holds {inventory['loaded']}, runs {inventory['num_running']}"
    return ""


def num_leases(fleet: Fleet) -> int:
    """Leases that are left, and requests that engines run, by every worker's account."""
    workers = residency(fleet)
    leases = sum(slot["num_running"] + slot["num_waiting"] for worker in workers for slot in worker["slots"])
    wanting = sum(share["num_wanting"] for worker in workers for share in worker["tenants"])
    return leases + wanting + sum(worker["inventory"]["num_running"] for worker in workers if worker["inventory"])


def num_open_jobs(fleet: Fleet) -> int:
    """Jobs that have not ended."""
    with fleet.admin() as admin:
        jobs = [job for state in _OPEN_JOBS for job in admin.get("/jobs", state=state, limit=1000)["jobs"]]
    return len(jobs)


def residency(fleet: Fleet) -> list[dict[str, Any]]:
    """What control shows of each worker that told it anything."""
    with fleet.admin() as admin:
        return admin.get("/residency")["workers"]


def _is_told_since(worker: dict[str, Any], age_max_s: float) -> bool:
    """Whether the engine was asked since; what control shows of it may be a heartbeat old by now."""
    return worker["inventory"] is not None and worker["inventory"]["age_s"] + HEARTBEAT_S < age_max_s


def _is_answered(fleet: Fleet, gateway: str, tenant: TenantInPlace) -> bool:
    try:
        response = ask(fleet.url(gateway), tenant)
    except httpx.HTTPError:
        return False
    return response.status_code == 200 and response.json()["choices"][0]["text"] == own_text(tenant)
