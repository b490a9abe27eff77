"""The admin API's own manners: who may call, what an error looks like, how long work is told."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from hotset.control.actors import ROLES
from hotset.control.api import PREFIX, admin_endpoints
from tests.support.installation import events_of, installation, run

DOCS = Path(__file__).parents[3] / "docs" / "admin-api.md"


def test_the_first_start_makes_one_admin_token_and_no_later_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            token = inst.first_token
            assert token is not None
            assert token.startswith("hso_")
            await inst.ok("POST", "/tenants", {"tenant": "acme"}, token=token)
        async with installation(tmp_path) as inst:
            assert inst.first_token is None
            assert await inst.ok("GET", "/tenants", token=token)
            assert len((await inst.ok("GET", "/operators"))["operators"]) == 1

    run(story())


def test_tcp_asks_for_an_operator_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            tenant_key = (await inst.ok("POST", "/keys", {"tenant": "acme"}))["token"]
            made = await inst.ok("POST", "/operators", {"name": "old", "roles": ["admin"]})
            await inst.ok("POST", f"/operators/{made['operator']['id']}/revoke", {})
            headers: list[dict[str, str]] = [
                {},
                {"Authorization": ""},
                {"Authorization": "Bearer"},
                {"Authorization": f"Bearer {tenant_key}"},
                {"Authorization": f"Bearer {made['token']}"},
                {"Authorization": f"Basic {inst.first_token}"},
                {"Authorization": "Bearer hso_" + "0" * 43},
            ]
            for row in admin_endpoints(inst.control):
                path = PREFIX + re.sub(r"\{\w+(:path)?\}", "x", row.path)
                answer = await inst.remote.request(row.method, path, headers=headers[0])
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
            for header in headers:
                for path in ("/metrics", f"{PREFIX}/status"):
                    answer = await inst.remote.get(path, headers=header)
                    assert answer.status_code == 401, header
                    assert answer.headers["www-authenticate"] == "Bearer"
            assert (await inst.remote.get("/healthz")).json() == {"status": "ok"}
            assert (await inst.remote.get(f"{PREFIX}/openapi.json")).status_code == 200

    run(story())


CALLS: list[tuple[str, str, Any, set[str]]] = [
    ("POST", "/tenants", {"tenant": "new"}, {"admin"}),
    ("POST", "/tenants/acme/suspend", {}, {"admin"}),
    ("POST", "/tenants/acme/quota", {"reserve_slots": 1}, {"admin"}),
    ("POST", "/keys", {"tenant": "acme"}, {"admin"}),
    ("POST", "/operators", {"name": "eve", "roles": ["admin"]}, {"admin"}),
    ("GET", "/operators", None, {"admin"}),
    ("POST", "/grants", {"tenant": "acme", "base": "tiny"}, {"admin", "deployer"}),
    ("POST", "/uploads", {}, {"admin", "publisher", "reviewer"}),
    ("POST", "/adapters/acme/support/versions/1/prove", {}, {"admin", "publisher", "reviewer"}),
    ("POST", "/adapters/acme/support/versions/1/approve", {}, {"admin", "reviewer"}),
    ("POST", "/adapters/acme/support/versions/1/promote", {}, {"admin", "deployer"}),
    ("POST", "/adapters/acme/support/versions/1/retire", {}, {"admin", "deployer"}),
    ("POST", "/adapters/acme/support/versions/1/quarantine", {"reason": "x"}, {"admin", "deployer", "reviewer"}),
    ("POST", "/adapters/acme/support/versions/1/release", {"reason": "x"}, {"admin", "reviewer"}),
    ("POST", "/adapters/acme/support/versions/1/ban", {"reason": "x"}, {"admin"}),
    ("POST", "/adapters/acme/support/versions/1/purge", {}, {"admin"}),
    ("POST", "/store/gc", {}, {"admin"}),
    ("POST", "/store/verify", {}, {"admin", "reviewer"}),
    ("GET", "/audit", None, {"admin", "reviewer"}),
    ("GET", "/audit/verify", None, {"admin", "reviewer"}),
    ("GET", "/tenants", None, set(ROLES)),
    ("GET", "/status", None, set(ROLES)),
]


def test_roles_allow_what_the_page_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            for role in ROLES:
                token = (await inst.ok("POST", "/operators", {"name": role, "roles": [role]}))["token"]
                for method, path, body, allowed in CALLS:
                    answer = await inst.call(method, path, body, token=token)
                    is_denied = answer.status_code == 403
                    assert is_denied == (role not in allowed), (role, path, answer.text)

    run(story())


def test_paths_on_the_server_are_taken_locally_only(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            folder = str(inst.adapter())
            for path, body in (
                ("/bases", {"folder": folder, "name": "x"}),
                ("/verify", {"folder": folder, "base": "tiny"}),
                ("/adapters/acme/support/versions", {"folder": folder, "base": "tiny"}),
            ):
                answer = await inst.call("POST", path, body, token=inst.first_token)
                assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied"), path

    run(story())


def test_errors_have_one_shape(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            cases = [
                ("GET", "/nowhere", None, 404, "route_not_found"),
                ("PATCH", "/tenants", None, 405, "method_not_allowed"),
                ("GET", "/tenants/nobody", None, 404, "not_found"),
                ("POST", "/tenants", {"tenant": "a b"}, 400, "invalid_name"),
                ("POST", "/tenants", {"tenant": "a", "role": "x"}, 400, "invalid_request"),
                ("POST", "/tenants", [1], 400, "invalid_request"),
                ("POST", "/operators", {"name": "x", "roles": ["root"]}, 400, "invalid_request"),
                *(
                    ("POST", "/operators", {"name": name, "roles": ["admin"]}, 400, "invalid_request")
                    for name in ("local", "fleet", "watchdog", "control", "Fleet ")
                ),
                ("POST", "/operators/op-0/revoke", {}, 404, "not_found"),
                ("GET", "/audit?limit=-1", None, 400, "invalid_request"),
                ("GET", "/bases/none", None, 404, "not_found"),
            ]
            for method, path, body, status, code in cases:
                answer = await inst.call(method, path, body)
                problem = answer.json()
                assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), path
                assert answer.headers["content-type"] == "application/problem+json"
                assert {"type", "title", "detail", "retryable"} <= set(problem)
            broken = await inst.local.post(f"{PREFIX}/tenants", content=b"{broken")
            assert (broken.status_code, broken.json()["code"]) == (400, "invalid_request")
            large = await inst.local.post(f"{PREFIX}/tenants", content=b" " * (1 << 20) + b"{}")
            assert (large.status_code, large.json()["code"]) == (413, "request_too_large")

    run(story())


def test_metrics_explain_and_status(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            assert "hotset_build_info" in (await inst.local.get("/metrics")).text
            assert (await inst.ok("GET", "/requests/req-1"))["lane"] == "loading"
            assert (await inst.call("GET", "/requests/req-2")).status_code == 404
            status = await inst.ok("GET", "/status")
            assert (status["one_person"], status["num_tenants"]) == (True, 0)
            assert status["reviewer_key"] in inst.folder.reviewer_keys()

    run(story())


NDJSON = {"Accept": "application/x-ndjson"}


def test_long_work_is_told_as_lines(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            body = {"folder": str(inst.adapter()), "base": "tiny"}
            answer = await inst.local.post(f"{PREFIX}/adapters/acme/support/versions", json=body, headers=NDJSON)
            assert answer.headers["content-type"].startswith("application/x-ndjson")
            events = events_of(answer)
            assert {event["phase"] for event in events[:-1]} == {"verify", "store"}
            assert events[-1]["result"]["ref"] == "acme/support@1"
            stored = [event for event in events if event.get("phase") == "store"]
            assert (stored[-1]["done"], stored[-1]["total"], stored[-1]["unit"]) == (2, 2, "files")

            refused = await inst.local.post(
                f"{PREFIX}/adapters/acme/support/versions", json={**body, "base": "none"}, headers=NDJSON
            )
            assert refused.status_code == 200
            assert events_of(refused)[-1]["problem"]["code"] == "not_found"
            checked = await inst.local.post(f"{PREFIX}/bases/tiny/check", headers=NDJSON)
            hashed = [event for event in events_of(checked) if event["event"] == "progress"]
            assert hashed[-1]["done"] == hashed[-1]["total"] > 0

    run(story())


def test_work_goes_on_when_its_client_hangs_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            await inst.push("acme/support", inst.adapter())
            inst.prover.hold = asyncio.Event()
            path = f"{PREFIX}/adapters/acme/support/versions/1/prove"
            call = asyncio.create_task(inst.local.post(path, json={}, headers=NDJSON))
            while not inst.prover.seen:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            inst.prover.hold.set()
            await inst.control.listening.finish()
            version = await inst.ok("GET", "/adapters/acme/support/versions/1")
            assert version["state"] == "proved"

    run(story())


def test_a_changed_base_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            config = tmp_path / "tiny" / "config.json"
            config.write_text(config.read_text() + "\n")
            changed = await inst.call("POST", "/bases/tiny/check", {})
            assert (changed.status_code, changed.json()["code"]) == (422, "digest_mismatch")
            assert "config.json" in changed.json()["detail"]
            (tmp_path / "tiny" / "added_tokens.json").write_text("{}")
            assert "added_tokens.json" in (await inst.call("POST", "/bases/tiny/check", {})).json()["detail"]
            (tmp_path / "tiny" / "model.safetensors").rename(tmp_path / "tiny" / "moved")
            (tmp_path / "tiny" / "added_tokens.json").unlink()
            assert "missing" in (await inst.call("POST", "/bases/tiny/check", {})).json()["detail"]

    run(story())


def test_openapi_names_every_endpoint_once_and_resolves(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            document = (await inst.remote.get(f"{PREFIX}/openapi.json")).json()
            operations = [
                operation["operationId"] for path in document["paths"].values() for operation in path.values()
            ]
            assert len(operations) == len(set(operations)) == len(admin_endpoints(inst.control))
            for name in re.findall(r'"#/components/schemas/(\w+)"', str(document).replace("'", '"')):
                assert name in document["components"]["schemas"]

    run(story())


def test_the_page_names_every_endpoint(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            page = DOCS.read_text().replace("{n}", "{number}").replace("…", f"{PREFIX}/adapters/{{owner}}/{{name}}")
            for row in admin_endpoints(inst.control):
                path = re.sub(r":path\}", "}", PREFIX + row.path)
                assert re.search(rf"`{row.method} {re.escape(path)}[?`]", page), (row.method, path)

    run(story())
