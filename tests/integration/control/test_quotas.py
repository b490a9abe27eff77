"""A tenant's quota, from the operator to the snapshot."""

from pathlib import Path
from typing import Any

from hotset.control.actors import LOCAL_ADMIN, ROLES
from hotset.control.declaring import Declared, Desired, DesiredQuota, declare
from hotset.core.ids import TenantId
from hotset.core.quotas import Quota, QuotaChange
from tests.support.installation import Installation, installation, run

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")


async def tenants(inst: Installation) -> None:
    for name in (ACME, UMBRELLA):
        await inst.ok("POST", "/tenants", {"tenant": name})


async def set_quota(inst: Installation, **parts: Any) -> Any:
    return await inst.ok("POST", "/tenants/acme/quota", parts)


def quota_in(answer: Any) -> tuple[Any, Any, Any]:
    return answer["reserve_slots"], answer["limit_slots"], answer["loads_per_minute"]


def test_what_is_set_is_answered_audited_and_in_the_snapshot_and_the_rest_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            assert quota_in(await inst.ok("GET", "/tenants/acme")) == (0, None, None)
            assert inst.holder.newest.quotas == {}
            answer = await set_quota(inst, reserve_slots=2, limit_slots=4)
            assert (answer["tenant"], quota_in(answer)) == ("acme", (2, 4, None))
            assert inst.holder.newest.quotas == {ACME: Quota(2, 4)}
            assert quota_in(await set_quota(inst, loads_per_minute=30)) == (2, 4, 30.0)
            assert quota_in(await set_quota(inst, limit_slots=None)) == (2, None, 30.0)
            listed = (await inst.ok("GET", "/tenants"))["tenants"]
            assert [quota_in(row) for row in listed] == [(2, None, 30.0), (0, None, None)]
            assert inst.holder.newest.quotas == {ACME: Quota(2, None, 30.0)}
            acts = [row for row in (await inst.ok("GET", "/audit"))["entries"] if row["action"] == "tenant.quota"]
            assert [(row["subject"], quota_in(row["details"])) for row in acts] == [
                ("acme", (2, 4, None)),
                ("acme", (2, 4, 30.0)),
                ("acme", (2, None, 30.0)),
            ]

    run(story())


def test_setting_what_is_set_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await set_quota(inst, reserve_slots=2)
            before = inst.holder.newest
            for parts in ({}, {"reserve_slots": 2}, {"limit_slots": None, "loads_per_minute": None}):
                assert quota_in(await set_quota(inst, **parts)) == (2, None, None)
            assert inst.holder.newest is before
            entries = (await inst.ok("GET", "/audit"))["entries"]
            assert [row["action"] for row in entries].count("tenant.quota") == 1

    run(story())


def test_a_quota_outlives_a_restart_and_a_suspension_but_no_removal(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await set_quota(inst, reserve_slots=2)
        async with installation(tmp_path) as inst:
            assert inst.holder.newest.quotas == {ACME: Quota(2)}
            await inst.ok("POST", "/tenants/acme/suspend", {})
            assert inst.holder.newest.quotas == {}
            assert quota_in(await set_quota(inst, limit_slots=3)) == (2, 3, None)
            assert inst.holder.newest.quotas == {}
            assert quota_in(await inst.ok("POST", "/tenants/acme/resume", {})) == (2, 3, None)
            assert inst.holder.newest.quotas == {ACME: Quota(2, 3)}
            assert quota_in(await inst.ok("DELETE", "/tenants/acme")) == (2, 3, None)
            assert inst.holder.newest.quotas == {}
            assert (await inst.call("POST", "/tenants/acme/quota", {"reserve_slots": 1})).status_code == 404

    run(story())


REFUSED: list[tuple[str, Any, int, str | None]] = [
    ("nobody", {"reserve_slots": 1}, 404, "tenant"),
    ("ACME", {"reserve_slots": 1}, 400, "tenant id"),
    ("acme", {"reserve_slots": -1}, 400, "reserve_slots"),
    ("acme", {"reserve_slots": 1025}, 400, "reserve_slots"),
    ("acme", {"reserve_slots": 1.5}, 400, "reserve_slots"),
    ("acme", {"reserve_slots": True}, 400, "reserve_slots"),
    ("acme", {"reserve_slots": "1"}, 400, "reserve_slots"),
    ("acme", {"limit_slots": 0}, 400, "limit_slots"),
    ("acme", {"limit_slots": 1}, 400, "limit_slots"),
    ("acme", {"reserve_slots": 5, "limit_slots": 4}, 400, "limit_slots"),
    ("acme", {"reserve_bytes": -1}, 400, "reserve_bytes"),
    ("acme", {"reserve_bytes": "1MiB"}, 400, "reserve_bytes"),
    ("acme", {"reserve_bytes": 5, "limit_bytes": 4}, 400, "limit_bytes"),
    ("acme", {"loads_per_minute": 0}, 400, "loads_per_minute"),
    ("acme", {"loads_per_minute": 1e9}, 400, "loads_per_minute"),
    ("acme", {"burst": 1}, 400, "burst"),
    ("acme", [], 400, "body"),
]


def test_numbers_that_make_no_quota_change_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await set_quota(inst, reserve_slots=2)
            before = inst.holder.newest
            for name, body, status, param in REFUSED:
                answer = await inst.call("POST", f"/tenants/{name}/quota", body)
                assert (answer.status_code, answer.json().get("param")) == (status, param), (body, answer.text)
            for text in (b'{"loads_per_minute": NaN}', b'{"loads_per_minute": Infinity}'):
                answer = await inst.local.post("/admin/v1/tenants/acme/quota", content=text)
                assert answer.status_code == 400, text
            assert inst.holder.newest is before
            assert quota_in(await inst.ok("GET", "/tenants/acme")) == (2, None, None)

    run(story())


def test_only_an_admin_sets_quotas(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            for role in ROLES:
                token = (await inst.ok("POST", "/operators", {"name": role, "roles": [role]}))["token"]
                answer = await inst.call("POST", "/tenants/acme/quota", {"reserve_slots": 1}, token=token)
                assert answer.status_code == (200 if role == "admin" else 403), role
                assert inst.holder.newest.quotas == ({ACME: Quota(1)} if role == "admin" else {}), role

    run(story())


async def declared(inst: Installation, *quotas: tuple[TenantId, QuotaChange]) -> Declared:
    wanted = Desired(tenants=(ACME,), quotas=tuple(DesiredQuota(*quota) for quota in quotas))
    return await declare(inst.control, LOCAL_ADMIN, wanted)


def test_a_file_brings_quotas_to_its_numbers_and_leaves_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            wanted = (ACME, QuotaChange(reserve_slots=2, limit_slots=None))
            assert (await declared(inst, wanted)).changed == [
                "added tenant acme",
                "set quota of acme: reserve_slots 2, limit_slots default",
            ]
            assert inst.holder.newest.quotas == {ACME: Quota(2)}
            epoch = inst.holder.newest.epoch
            again = await declared(inst, wanted)
            assert (again.changed, again.failed, inst.holder.newest.epoch) == ([], [], epoch)
            await set_quota(inst, reserve_slots=1, loads_per_minute=6)
            assert (await declared(inst)).changed == []
            assert (await declared(inst, wanted)).changed == ["set quota of acme: reserve_slots 2, limit_slots default"]
            assert inst.holder.newest.quotas == {ACME: Quota(2, None, 6.0)}

    run(story())


def test_a_declared_quota_that_can_not_be_stops_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await set_quota(inst, limit_slots=2)
            outcome = await declared(
                inst,
                (ACME, QuotaChange(reserve_slots=3)),
                (TenantId("nobody"), QuotaChange(reserve_slots=3)),
                (UMBRELLA, QuotaChange(reserve_slots=3)),
            )
            assert [(subject, error.code) for subject, error in outcome.failed] == [
                ("quota of acme", "invalid_request"),
                ("quota of nobody", "not_found"),
            ]
            assert outcome.changed == ["set quota of umbrella: reserve_slots 3"]
            await inst.ok("DELETE", "/tenants/umbrella")
            removed = await declared(inst, (UMBRELLA, QuotaChange(reserve_slots=4)))
            assert (removed.changed, removed.failed) == ([], [])

    run(story())
