"""What the person on call sees of a fleet: all of it, or who is missing from it."""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from hotset.core.errors import NotFoundError
from tests.support.fleet import Fleet, ask, get, running_fleet

pytestmark = pytest.mark.timeout(600)
NUM_ADAPTERS = 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fleet]:
    root = tmp_path_factory.mktemp("on-call")
    with running_fleet(
        root, workers=2, gateways=2, adapters=NUM_ADAPTERS, engine={"num_slots": 1}, fleet={"metrics_port": 0}
    ) as found:
        yield found


@pytest.fixture
def fleet(shared: Fleet) -> Fleet:
    """The fleet of all these tests, whole again whatever the one before did to it."""
    whole(shared)
    return shared


def served(fleet: Fleet, gateway: str, tenant: str) -> str:
    """Have a tenant's request answered; return its id."""
    answer = ask(fleet.url(gateway), fleet.tenants[tenant])
    assert answer.status_code == 200, answer.text
    return answer.headers["x-request-id"]


def told(fleet: Fleet, path: str, **query: Any) -> dict[str, Any]:
    with fleet.admin() as admin:
        return admin.get(path, **query)


def command(fleet: Fleet, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the command line against this installation."""
    line = [sys.executable, "-m", "hotset.cli", "--home", str(fleet.home), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


def metrics_of(fleet: Fleet, name: str) -> str:
    found = fleet.processes[name].addresses()
    assert found is not None
    return get(f"{found.admin_url}/metrics").text


def requests_used(fleet: Fleet) -> dict[str, int]:
    answer = told(fleet, "/usage")
    assert answer["unreached"] == []
    found: Counter[str] = Counter()
    for row in answer["rows"]:
        found[row["tenant"]] += row["requests"]
    return dict(found)


def unreached(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["role"], each["name"]) for each in answer["unreached"]]


def engines_told(fleet: Fleet) -> list[str | None]:
    return [each["engine"] for each in told(fleet, "/residency")["workers"]]


def whole(fleet: Fleet) -> None:
    """Wait until every process is linked again and requests are answered."""
    fleet.until(lambda: not told(fleet, "/holders")["unreached"], "every process")
    fleet.until(lambda: fleet.ready("g1") and fleet.ready("g2"), "both gateways")
    fleet.until(lambda: engines_told(fleet) == ["instant 1"] * 2, "both workers' reports")


def test_a_request_is_explained_whichever_gateway_and_worker_had_it(fleet: Fleet) -> None:
    # More versions than slots: every worker evicts.
    rounds = [(gateway, f"tenant-{n}") for _ in range(3) for gateway in ("g1", "g2") for n in range(NUM_ADAPTERS)]
    asked = {served(fleet, gateway, tenant): (gateway, tenant) for gateway, tenant in rounds}
    causes: Counter[str] = Counter()
    for request, (gateway, tenant) in asked.items():
        entry = told(fleet, f"/requests/{request}")
        assert (entry["gateway"], entry["tenant"], entry["unreached"]) == (gateway, tenant, [])
        assert entry["route"] == f"adapter -> {tenant}/adapter@1 on tiny"
        assert entry["worker"] in ("w1", "w2")
        assert [each["worker"] for each in entry["at_workers"]] == [entry["worker"]]
        assert entry["engine"] == "instant 1"
        if entry["lane"] == "loading":
            assert entry["loaded"]["seconds"] > 0
        if entry["evicted"] is not None:
            assert entry["evicted"]["made_room_for"] != f"{tenant}/adapter@1"
            causes[entry["evicted"]["by"]] += 1
    assert causes, "with fewer slots than versions somebody evicts somebody"
    victims = set(
        re.findall(r'hotset_adapter_evictions_total{cause="borrow",victim="([^"]+)"}', metrics_of(fleet, "w1"))
    )
    assert victims <= {*fleet.tenants, "none"}, "a worker names the tenants of its snapshot"
    text = command(fleet, "explain", next(iter(asked)))
    assert "gateway" in text.stdout
    assert "worker" in text.stdout
    assert "a b c" not in text.stdout


def test_top_is_of_all_gateways_and_workers_together(fleet: Fleet) -> None:
    for gateway in ("g1", "g2", "g2"):
        served(fleet, gateway, "tenant-0")
    shown = fleet.until(lambda: (found := told(fleet, "/top"))["unreached"] == [] and found, "everybody's word")
    by_gateway = {each["gateway"]: each["per_minute"]["requests"] for each in shown["gateways"]}
    assert list(by_gateway) == ["g1", "g2"]
    assert shown["per_minute"]["requests"] == sum(by_gateway.values()) >= 3
    assert min(by_gateway.values()) >= 1
    assert [worker["worker"] for worker in shown["workers"]] == ["w1", "w2"]
    assert "tenant-0" in [tenant["tenant"] for tenant in shown["tenants"]]
    assert shown["unreached"] == []
    assert "by g1:" in command(fleet, "top", "--once").stdout
    residency = told(fleet, "/residency")
    assert ([worker["worker"] for worker in residency["workers"]], residency["unreached"]) == (["w1", "w2"], [])


@pytest.mark.slow
def test_usage_counts_each_request_once_through_kills_and_without_control(fleet: Fleet) -> None:
    before = requests_used(fleet).get("tenant-0", 0)
    for gateway in ("g1", "g2", "g1"):
        served(fleet, gateway, "tenant-0")
    assert requests_used(fleet)["tenant-0"] == before + 3
    # What was counted stays counted when its gateway is gone; a new start begins another stream.
    fleet.processes["g2"].kill()
    fleet.processes["g2"].start()
    whole(fleet)
    served(fleet, "g2", "tenant-0")
    assert requests_used(fleet)["tenant-0"] == before + 4
    # Without control it is kept on the gateway's disk, through a kill of the gateway too.
    fleet.processes["control"].kill()
    kept = fleet.home / "gateways" / "g1" / "usage"
    written_at = kept.stat().st_mtime_ns
    for gateway in ("g1", "g1", "g2"):
        served(fleet, gateway, "tenant-0")
    fleet.until(lambda: kept.stat().st_mtime_ns > written_at, "what was used on the disk of g1")
    fleet.processes["g1"].kill()
    fleet.processes["g1"].start()
    # Without control a command reads what lies in the state folder, and says who is not in it.
    alone = json.loads(command(fleet, "usage", "--json").stdout)
    assert unreached(alone) == [("gateway", "g1"), ("gateway", "g2"), ("worker", "w1"), ("worker", "w2")]
    fleet.processes["control"].start()
    fleet.until(fleet.processes["control"].addresses, "control")
    whole(fleet)
    assert requests_used(fleet)["tenant-0"] == before + 7


def settled(count: Callable[[], int]) -> int:
    """Return a count of what workers say of their slots every second, once it changes no more."""
    found, before = count(), -1
    while found != before:
        time.sleep(2.5)
        found, before = count(), found
    return found


def test_a_worker_counts_loads_and_slots_and_control_that_starts_anew_counts_none_twice(fleet: Fleet) -> None:
    def loads() -> int:
        return sum(row["loads"] for row in told(fleet, "/usage")["rows"])

    served(fleet, "g1", "tenant-1")
    fleet.until(loads, "loads")
    fleet.until(lambda: any(row["slot_seconds"] > 0 for row in told(fleet, "/usage")["rows"]), "time in slots")
    before = settled(loads)
    fleet.processes["control"].kill()
    fleet.processes["control"].start()
    fleet.until(fleet.processes["control"].addresses, "control")
    whole(fleet)
    assert loads() == before


@pytest.mark.slow
def test_who_is_down_is_named_everywhere(fleet: Fleet) -> None:
    request = served(fleet, "g2", "tenant-1")
    worker = told(fleet, f"/requests/{request}")["worker"]
    fleet.processes["g2"].kill()
    fleet.processes[worker].kill()
    gone = [("gateway", "g2"), ("worker", worker)]
    fleet.until(lambda: unreached(told(fleet, "/holders")) == gone, "the losses")
    assert unreached(told(fleet, "/top")) == gone
    assert unreached(told(fleet, "/usage")) == gone
    assert unreached(told(fleet, "/residency")) == gone[1:]
    # Its log lies on this machine: the gateway needs not be there. What the worker remembered is gone with it.
    entry = told(fleet, f"/requests/{request}")
    assert (entry["gateway"], entry["worker"], unreached(entry)) == ("g2", worker, gone[1:])
    with pytest.raises(NotFoundError, match="gateway g2: not linked"):
        told(fleet, "/requests/nothing")
    frozen = command(fleet, "freeze", "--json")
    assert json.loads(frozen.stdout)["unreached"][0]["name"] == worker
    assert f"Not reached: worker {worker}" in command(fleet, "unfreeze").stderr
    assert "not reached: gateway g2" in command(fleet, "top", "--once").stdout
    assert command(fleet, "holder", "remove", "g1", "--yes").returncode == 1
    assert command(fleet, "holder", "remove", "g2", "--yes").returncode == 0
    assert unreached(told(fleet, "/top")) == gone[1:]
    fleet.processes["g2"].start()
    fleet.processes[worker].start()
    whole(fleet)
    assert unreached(told(fleet, "/top")) == []


def test_a_gateway_that_is_told_to_end_is_not_missed_and_loses_no_count(fleet: Fleet) -> None:
    before = requests_used(fleet).get("tenant-2", 0)
    served(fleet, "g2", "tenant-2")
    assert fleet.processes["g2"].stop() == 0
    fleet.until(lambda: unreached(told(fleet, "/holders")) == [], "its farewell")
    assert requests_used(fleet)["tenant-2"] == before + 1
    fleet.processes["g2"].start()
    whole(fleet)


def test_readiness_of_each_process_is_true(fleet: Fleet) -> None:
    def status(name: str, page: str) -> int:
        found = fleet.processes[name].addresses()
        assert found is not None
        return get(f"{found.admin_url}{page}").status_code

    for name in ("g1", "g2", "w1", "w2"):
        assert (status(name, "/healthz"), status(name, "/readyz")) == (200, 200)
        assert status(name, "/metrics") == 200
    for worker in ("w1", "w2"):
        fleet.processes[worker].kill()
    # Without a worker that can be reached a gateway is there, and not ready.
    fleet.until(lambda: status("g1", "/readyz") == 503, "the gateway's word that it is not ready")
    assert status("g1", "/healthz") == 200
    assert get(f"{fleet.url('g1')}/readyz").json() == {"status": "no_engine"}
    for worker in ("w1", "w2"):
        fleet.processes[worker].start()
    fleet.until(lambda: fleet.num_linked_workers() == 2, "both workers")
    fleet.until(lambda: status("g1", "/readyz") == 200 and status("w1", "/readyz") == 200, "readiness")


def test_a_gateway_without_a_snapshot_is_not_ready(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "home", tmp_path / "none.yaml")
    fleet.config.write_text("server: {tenant_port: 0, admin_port: 0}\nfleet: {metrics_port: 0}\n")
    try:
        control = fleet.add("control", "control")
        fleet.until(control.addresses, "control")
        control.stop()
        gateway = fleet.add("gateway", "g1")
        found = fleet.until(gateway.addresses, "the gateway")
        assert get(f"{found.admin_url}/healthz").status_code == 200
        assert get(f"{found.admin_url}/readyz").status_code == 503
        assert get(f"{found.tenant_url}/readyz").json() == {"status": "no_snapshot"}
    finally:
        fleet.stop()
