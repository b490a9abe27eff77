"""Control, gateways and workers as processes of their own: answers, losses, and what goes on without control."""

import contextlib
import json
import sqlite3
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.adapters import BASE_NAME
from tests.support.certificates import Authority
from tests.support.fleet import Fleet, ask, free_port, get, own_text, running_fleet, text_of
from tests.support.server import BASE, add_tenant, write_config, write_world

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fleet]:
    root = tmp_path_factory.mktemp("fleet")
    with running_fleet(root, workers=3, gateways=2, worker={"drain_timeout_s": 60}) as found:
        yield found


def test_every_gateway_answers_every_tenant_from_its_own_version(fleet: Fleet) -> None:
    def one(number: int) -> None:
        tenant = fleet.tenants[f"tenant-{number % 4}"]
        assert text_of(ask(fleet.url(f"g{1 + number % 2}"), tenant)) == own_text(tenant)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(32)))


def answers(fleet: Fleet, gateway: str, tenant_name: str) -> bool:
    """Whether a tenant's request is answered, with its own version's words."""
    tenant = fleet.tenants[tenant_name]
    try:
        response = ask(fleet.url(gateway), tenant)
    except httpx.HTTPError:
        return False
    return response.status_code == 200 and text_of(response) == own_text(tenant)


def all_answer(fleet: Fleet, gateway: str) -> bool:
    return all(answers(fleet, gateway, name) for name in fleet.tenants)


def holders(fleet: Fleet) -> dict[str, dict[str, object]]:
    with fleet.admin() as admin:
        found = admin.get("/holders")
    assert all(holder["epoch"] <= found["epoch"] for holder in found["holders"])
    return {holder["name"]: {**holder, "is_current": holder["epoch"] == found["epoch"]} for holder in found["holders"]}


def test_a_change_reaches_every_holder_and_each_says_so(fleet: Fleet) -> None:
    tenant = fleet.tenants["tenant-3"]
    with fleet.admin() as admin:
        issued = admin.post("/keys", {"tenant": tenant.name})
    fleet.until(lambda: all(holder["is_current"] for holder in holders(fleet).values()), "every acknowledgement")
    headers = {"authorization": f"Bearer {issued['token']}"}
    urls = [f"{fleet.url(name)}/v1/models" for name in ("g1", "g2")]
    assert [get(url, headers=headers).status_code for url in urls] == [200, 200]
    with fleet.admin() as admin:
        admin.post(f"/keys/{issued['key']['id']}/revoke", {})
    fleet.until(lambda: all(holder["is_current"] for holder in holders(fleet).values()), "every acknowledgement")
    assert [get(url, headers=headers).status_code for url in urls] == [401, 401]


def test_a_gateway_says_when_it_takes_requests(fleet: Fleet) -> None:
    for name in ("g1", "g2"):
        fleet.until(lambda name=name: fleet.ready(name), f"the readiness of {name}")
        assert fleet.until(lambda name=name: "\nReady\n" in fleet.processes[name].said(), f"the line of {name}")


def test_a_second_process_with_a_name_that_is_taken_serves_nothing(fleet: Fleet, tmp_path: Path) -> None:
    before = holders(fleet)["w1"]
    # On this machine the folder's lock refuses it; from another folder, as from another machine, control does.
    twin = fleet.add("worker", "w1-twin", "--name", "w1")
    assert twin.popen is not None
    assert twin.popen.wait(60) == 1
    assert "state_locked" in twin.said()
    control = f"unix:{fleet.home}/run/control.sock"
    (tmp_path / "e").mkdir(mode=0o700)
    file = tmp_path / "twin.yaml"
    file.write_text(fleet.config.read_text() + f"bases:\n  - {{name: tiny, folder: {fleet.home.parent}/base}}\n")
    impostor = fleet.add(
        "worker", "w1-impostor", "--name", "w1", "--control", control, "-f", str(file), home=tmp_path / "e"
    )
    fleet.until(lambda: "control rejects this worker" in impostor.said(), "the rejection")
    fleet.until(lambda: "identity.conflict" in str(audit(fleet)), "the alarm in the audit log")
    assert "a second process says that it is worker w1" in fleet.processes["control"].said()
    with fleet.admin() as admin:
        assert 'hotset_identity_conflicts_total{role="worker"}' in admin_metrics(fleet)
        assert admin.get("/audit/verify")["is_intact"]
    assert all_answer(fleet, "g1")
    assert holders(fleet)["w1"]["fence"] == before["fence"]
    assert impostor.is_alive
    assert "under fence" not in impostor.said()
    assert impostor.stop() == 0
    assert fleet.processes.pop("w1-twin")
    assert fleet.processes.pop("w1-impostor")


def test_a_quarantine_and_its_release_bind_a_running_fleet(fleet: Fleet) -> None:
    tenant = fleet.tenants["tenant-2"]
    version = f"/adapters/{tenant.name}/adapter/versions/1"
    for verb, is_served in (("quarantine", False), ("release", True)):
        with fleet.admin() as admin:
            admin.post(f"{version}/{verb}", {"reason": "a drill"})
        fleet.until(lambda want=is_served: answers(fleet, "g1", tenant.name) is want, verb)
        fleet.until(lambda want=is_served: answers(fleet, "g2", tenant.name) is want, verb)
        fleet.until(lambda: all(each["is_current"] for each in holders(fleet).values()), "every acknowledgement")
    assert [each["action"] for each in audit(fleet)][-2:] == ["version.quarantine", "version.release"]


def audit(fleet: Fleet) -> list[dict[str, object]]:
    with fleet.admin() as admin:
        return admin.get("/audit", limit=10_000)["entries"]


def admin_metrics(fleet: Fleet) -> str:
    transport = httpx.HTTPTransport(uds=str(fleet.home / "run" / "admin.sock"))
    with httpx.Client(transport=transport, base_url="http://control", timeout=60) as client:
        return client.get("/metrics").text


@pytest.mark.slow
def test_killed_workers_and_gateways_come_back_and_lose_nobody_elses_requests(fleet: Fleet) -> None:
    for name in ("w2", "g2", "w1"):
        process = fleet.processes[name]
        process.kill()
        fleet.until(lambda: all_answer(fleet, "g1"), f"the answers without {name}")
        process.start()
        fleet.until(lambda: fleet.num_linked_workers() == 3, "every worker")
        fleet.until(lambda: fleet.ready("g2"), "the second gateway")
        fleet.until(lambda: all_answer(fleet, "g2"), "the answers through the second gateway")
        assert all(each.is_alive for each in fleet.processes.values())


@pytest.mark.slow
def test_without_control_traffic_loads_and_restarts_go_on(fleet: Fleet) -> None:
    control = fleet.processes["control"]
    assert all_answer(fleet, "g1")
    control.kill()
    began_s = time.monotonic()
    while time.monotonic() - began_s < 3:
        assert all_answer(fleet, "g1")
    # Every slot is empty in a worker that starts anew: each of its answers is a cold load, from the store it knows.
    for name in ("w1", "w2", "w3"):
        fleet.processes[name].kill()
        fleet.processes[name].start()
    fleet.until(lambda: all_answer(fleet, "g1"), "answers from workers that started without control")
    fleet.processes["g2"].kill()
    fleet.processes["g2"].start()
    fleet.until(lambda: fleet.ready("g2") and all_answer(fleet, "g2"), "answers of a gateway without control")
    control.start()
    fleet.until(control.addresses, "control")
    fleet.until(lambda: fleet.num_linked_workers() == 3, "every worker")
    assert all_answer(fleet, "g1")


def test_a_worker_that_is_told_to_end_finishes_what_runs(fleet: Fleet) -> None:
    tenant = fleet.tenants["tenant-0"]
    worker = fleet.processes["w3"]
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(ask, fleet.url("g1"), tenant, max_tokens=20_000) for _ in range(8)]
        time.sleep(0.2)
        assert worker.stop() == 0
        assert [text_of(each.result()) for each in running] == [own_text(tenant, 20_000)] * 8
    assert "w3" not in holders(fleet)
    worker.start()
    fleet.until(lambda: fleet.num_linked_workers() == 3, "every worker")


@pytest.mark.slow
def test_control_over_an_older_copy_of_its_database_is_heard_all_the_same(fleet: Fleet) -> None:
    control, tenant = fleet.processes["control"], fleet.tenants["tenant-3"]
    with fleet.admin() as admin:
        issued = admin.post("/keys", {"tenant": tenant.name})
    headers = {"authorization": f"Bearer {issued['token']}"}
    urls = [f"{fleet.url(name)}/v1/models" for name in ("g1", "g2")]
    fleet.until(lambda: [get(url, headers=headers).status_code for url in urls] == [200, 200], "the key")
    control.kill()
    with contextlib.closing(sqlite3.connect(fleet.home / "hotset.db")) as database, database:
        database.execute("UPDATE settings SET value = '1' WHERE name = 'epoch'")
    control.start()
    fleet.until(control.addresses, "control")
    with fleet.admin() as admin:
        admin.post(f"/keys/{issued['key']['id']}/revoke", {})
    fleet.until(lambda: [get(url, headers=headers).status_code for url in urls] == [401, 401], "the revocation")
    fleet.until(lambda: all(holder["is_current"] for holder in holders(fleet).values()), "every acknowledgement")
    assert all_answer(fleet, "g1")


@pytest.mark.slow
def test_a_gateway_stops_when_control_was_away_for_too_long(tmp_path: Path) -> None:
    with running_fleet(tmp_path, workers=1, gateways=1, adapters=1, gateway={"snapshot_age_max_s": 3}) as fleet:
        tenant = fleet.tenants["tenant-0"]
        assert answers(fleet, "g1", tenant.name)
        fleet.processes["control"].kill()
        assert answers(fleet, "g1", tenant.name)
        refused = fleet.until(
            lambda: (found := ask(fleet.url("g1"), tenant)).status_code == 503 and found, "the refusal"
        )
        assert json.loads(refused.text)["error"]["code"] == "control_unreachable"
        assert get(f"{fleet.url('g1')}/readyz").json() == {"status": "control_unreachable"}
        models = get(f"{fleet.url('g1')}/v1/models", headers={"authorization": f"Bearer {tenant.token}"})
        assert models.status_code == 503
        fleet.processes["control"].start()
        fleet.until(lambda: answers(fleet, "g1", tenant.name), "answers once control is back")


@pytest.mark.slow
def test_a_job_outlives_the_gateway_that_accepted_it(tmp_path: Path) -> None:
    """I8: any gateway finishes it, once; any gateway shows it."""
    sections = {"jobs": {"lease_s": 3}}
    with running_fleet(tmp_path, workers=1, gateways=2, adapters=1, kind="instant_stepwise", **sections) as fleet:
        tenant = fleet.tenants["tenant-0"]
        headers = {"authorization": f"Bearer {tenant.token}"}
        body = {"model": "adapter", "input": "a b c", "background": True, "max_output_tokens": 20_000}
        accepted = httpx.post(f"{fleet.url('g1')}/v1/responses", json=body, headers=headers, timeout=60)
        assert accepted.is_success, accepted.text
        path = f"/v1/responses/{accepted.json()['id']}"
        fleet.processes["g1"].kill()

        def finished() -> dict[str, object] | None:
            found = get(f"{fleet.url('g2')}{path}", headers=headers).json()
            return None if found["status"] in ("queued", "in_progress") else found

        found = fleet.until(finished, "the job's end")
        assert found["status"] == "incomplete", found  # it ended at max_output_tokens
        assert own_text(tenant, 20_000).strip() in json.dumps(found)


@pytest.mark.slow
def test_over_tls_every_process_shows_its_certificate(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    write_world(tmp_path, adapters=1)
    fleet = Fleet(tmp_path / "home", write_config(tmp_path, engine={"kind": "instant"}))
    control = f"tls://127.0.0.1:{free_port()}"

    def file(role: str, name: str, signed_by: Authority, **more: str) -> tuple[str, str]:
        tls = signed_by.issue(role, name)
        paths = {"certificate": str(tls.certificate), "key": str(tls.key), "authority": str(authority.path)}
        content = {**yaml.safe_load(fleet.config.read_text()), "fleet": {"control": control, **paths, **more}}
        path = tmp_path / f"{role}-{name}-{id(signed_by)}.yaml"
        path.write_text(yaml.safe_dump(content))
        return "-f", str(path)

    try:
        fleet.add("control", "control", *file("control", "control", authority))
        fleet.until(fleet.processes["control"].addresses, "control")
        with fleet.admin() as admin:
            admin.post("/bases", {"folder": str(tmp_path / "base"), "name": BASE, "synonyms": [BASE_NAME]})
            tenant = add_tenant(admin, "tenant-0", tmp_path / "adapter-0")
        fleet.tenants[tenant.name] = tenant
        fleet.add("worker", "w1", *file("worker", "w1", authority, listen="tls://127.0.0.1:0"))
        fleet.add("gateway", "g1", *file("gateway", "g1", authority))
        fleet.add("gateway", "stranger", *file("gateway", "stranger", stranger))
        fleet.add("gateway", "liar", *file("gateway", "g7", authority))
        fleet.until(lambda: fleet.ready("g1") and all_answer(fleet, "g1"), "an answer over TLS")
        assert sorted(holders(fleet)) == ["g1", "w1"]
        assert not fleet.ready("stranger")
        assert not fleet.ready("liar")
    finally:
        fleet.stop()
