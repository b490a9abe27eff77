"""A worker that shares no folder with control: what it serves comes over the link, and stays while control is away."""

import shutil
from pathlib import Path

import pytest

from tests.support.adapters import BASE_NAME
from tests.support.fleet import Fleet, ask, get, own_text, text_of
from tests.support.server import BASE, add_tenant, write_config, write_world

_FETCHES = 'hotset_blob_fetches_total{outcome="done"}'
pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
def test_a_worker_with_a_folder_of_its_own_fetches_what_it_loads(tmp_path: Path) -> None:
    write_world(tmp_path, adapters=3)
    fleet = Fleet(tmp_path / "home", write_config(tmp_path, engine={"kind": "instant"}))
    away = tmp_path / "away"
    own_file = tmp_path / "away.yaml"
    own_file.write_text(fleet.config.read_text() + f"bases:\n  - {{name: {BASE}, folder: {tmp_path}/base}}\n")
    try:
        fleet.add("control", "control")
        fleet.until(fleet.processes["control"].addresses, "control")
        with fleet.admin() as admin:
            admin.post("/bases", {"folder": str(tmp_path / "base"), "name": BASE, "synonyms": [BASE_NAME]})
            for number in range(3):
                tenant = add_tenant(admin, f"tenant-{number}", tmp_path / f"adapter-{number}")
                fleet.tenants[tenant.name] = tenant
        away.mkdir(mode=0o700)
        shutil.copytree(fleet.home / "trust" / "reviewers", away / "trust" / "reviewers")
        door = f"unix:{fleet.home}/run/control.sock"
        flags = ("--control", door, "--metrics-port", "0", "-f", str(own_file))
        worker = fleet.add("worker", "w1", *flags, home=away)
        fleet.add("gateway", "g1")
        fleet.until(lambda: fleet.num_linked_workers() == 1, "the worker")
        fleet.until(lambda: fleet.ready("g1"), "the gateway")
        # Every version is at home here, and comes before anybody asks.
        fleet.until(
            lambda: count(fleet, 'hotset_adapter_prefetches_total{outcome="done",step="fetch"}') == 3, "all files"
        )
        for name in ("tenant-0", "tenant-1"):
            tenant = fleet.tenants[name]
            fleet.until(lambda tenant=tenant: ask(fleet.url("g1"), tenant).status_code == 200, "an answer")
            assert text_of(ask(fleet.url("g1"), tenant)) == own_text(tenant)
        assert count(fleet, 'hotset_adapter_lookups_total{tier="cold"}') == 0
        assert count(fleet, 'hotset_adapter_prefetches_total{outcome="used",step="fetch"}') == 2
        assert not any((away / "blobs" / "sha256").iterdir()), "the trusted store is control's"
        assert count(fleet, _FETCHES) >= 3
        # What was fetched is there for a worker that starts anew, with an engine that holds nothing, without control.
        fleet.processes["control"].kill()
        worker.kill()
        worker.start()
        for name in ("tenant-0", "tenant-1"):
            tenant = fleet.tenants[name]
            fleet.until(lambda tenant=tenant: ask(fleet.url("g1"), tenant).status_code == 200, "an answer")
            assert text_of(ask(fleet.url("g1"), tenant)) == own_text(tenant)
        assert count(fleet, _FETCHES) == 0
    finally:
        fleet.stop()


def count(fleet: Fleet, series: str) -> int:
    """What this start of the worker counted."""
    found = fleet.processes["w1"].addresses()
    assert found is not None
    lines = get(f"{found.admin_url}/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith(series)]
    return int(float(counts[0].rpartition(" ")[2])) if counts else 0
