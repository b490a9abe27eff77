"""Pools: who serves whom follows from the commands at once, and no pool takes what it must not."""

from pathlib import Path

from hotset.core.fleet import DEFAULT_POOL, WorkerFacts
from hotset.core.ids import Digest, PoolName, TenantId, WorkerId
from tests.support.fleets import facts_of
from tests.support.installation import Installation, installation, run

ACME, BOLT = TenantId("acme"), TenantId("bolt")


async def prepared(inst: Installation) -> Digest:
    base = await inst.add_base()
    for tenant in (ACME, BOLT):
        await inst.ok("POST", "/tenants", {"tenant": tenant})
    return Digest(base["digest"])


def worker(name: str, base: Digest, *, pool: str | None = None, rank_class: int = 16) -> WorkerFacts:
    told = facts_of(name, rank_class=rank_class)
    fields = {each: getattr(told, each) for each in told.__struct_fields__}
    return WorkerFacts(**{**fields, "base": base, "pool": pool})


async def audited(inst: Installation, prefix: str) -> list[tuple[str, str]]:
    entries = (await inst.ok("GET", "/audit?limit=1000"))["entries"]
    return [(row["action"], row["subject"]) for row in entries if row["action"].startswith(prefix)]


def test_a_tenant_and_a_worker_are_in_the_pool_they_were_assigned_to(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            await inst.control.fleet.register(worker("gpu-1", base))
            body = {"pool": "big", "base": "tiny", "kind": "dedicated", "release_schedule": "mon-thu 09:00-16:00"}
            added = await inst.ok("POST", "/pools", body)
            assert (added["kind"], added["tenants"], added["workers"]) == ("dedicated", [], [])
            assert inst.holder.newest.pool_of(ACME, base) == DEFAULT_POOL
            await inst.ok("POST", "/pools/big/assign", {"tenant": ACME})
            (shown,) = (await inst.ok("POST", "/pools/big/assign", {"worker": "gpu-1"}))["pools"]
            assert (shown["tenants"], shown["workers"]) == ([ACME], ["gpu-1"])
            snapshot = inst.holder.newest
            assert (snapshot.pool_of(ACME, base), snapshot.pool_of(BOLT, base)) == ("big", DEFAULT_POOL)
            assert snapshot.workers[WorkerId("gpu-1")].pool == "big"
            entry = snapshot.pools[PoolName("big")]
            assert (entry.kind, entry.tenants, entry.release_schedule) == ("dedicated", (ACME,), "mon-thu 09:00-16:00")
            epoch = snapshot.epoch
            await inst.ok("POST", "/pools/big/assign", {"tenant": ACME})
            assert inst.holder.newest.epoch == epoch
            assert await audited(inst, "pool.") == [("pool.add", "big"), ("pool.assign", "big"), ("pool.assign", "big")]

    run(story())


def test_the_default_pool_takes_back_what_was_assigned(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            await inst.control.fleet.register(worker("gpu-1", base))
            await inst.ok("POST", "/pools", {"pool": "big", "base": "tiny"})
            await inst.ok("POST", "/pools/big/assign", {"tenant": ACME})
            await inst.ok("POST", "/pools/big/assign", {"worker": "gpu-1"})
            refused = await inst.call("DELETE", "/pools/big")
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
            assert "acme" in refused.json()["detail"]
            assert (await inst.call("POST", "/pools/default/assign", {"tenant": ACME})).status_code == 400
            await inst.ok("POST", "/pools/default/assign", {"tenant": ACME, "base": "tiny"})
            await inst.ok("POST", "/pools/default/assign", {"worker": "gpu-1"})
            assert inst.holder.newest.pool_of(ACME, base) == DEFAULT_POOL
            assert inst.holder.newest.workers[WorkerId("gpu-1")].pool == DEFAULT_POOL
            assert (await inst.ok("DELETE", "/pools/big"))["pool"] == "big"
            assert [each["pool"] for each in (await inst.ok("GET", "/pools"))["pools"]] == ["default"]

    run(story())


def test_a_dedicated_pool_takes_one_tenant(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.ok("POST", "/pools", {"pool": "own", "base": "tiny", "kind": "dedicated"})
            await inst.ok("POST", "/pools/own/assign", {"tenant": ACME})
            refused = await inst.call("POST", "/pools/own/assign", {"tenant": BOLT})
            assert (refused.status_code, "dedicated to 'acme'" in refused.json()["detail"]) == (409, True)
            await inst.ok("DELETE", f"/tenants/{ACME}")
            await inst.ok("POST", "/pools/own/assign", {"tenant": BOLT})

    run(story())


def test_a_pool_takes_neither_another_base_nor_too_low_a_rank_nor_a_version_of_too_high_a_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            other = Digest("sha256:" + "b" * 64)
            await inst.control.fleet.register(worker("low", base, rank_class=8))
            await inst.control.fleet.register(worker("other", other))
            await inst.ok("POST", "/pools", {"pool": "high", "base": "tiny", "rank_class": 16})
            for name, said in (("low", "takes ranks up to 8"), ("other", "another base")):
                refused = await inst.call("POST", "/pools/high/assign", {"worker": name})
                assert (refused.status_code, said in refused.json()["detail"]) == (409, True)
            await inst.ok("POST", "/pools", {"pool": "small", "base": "tiny", "rank_class": 1})
            version = await inst.serve("acme/support", inst.adapter())
            assert version["rank_max"] > 1
            refused = await inst.call("POST", "/pools/small/assign", {"tenant": ACME})
            assert (refused.status_code, "acme/support@1" in refused.json()["detail"]) == (409, True)
            await inst.ok("POST", "/pools/high/assign", {"tenant": ACME})

    run(story())


def test_a_version_of_too_high_a_rank_for_a_pool_that_may_call_it_is_not_promoted(tmp_path: Path) -> None:
    """It would have no home there, and each of that pool's tenants would be refused."""

    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.ok("POST", "/pools", {"pool": "small", "base": "tiny", "rank_class": 1})
            await inst.ok("POST", "/pools/small/assign", {"tenant": ACME})
            version = await inst.push("acme/support", inst.adapter())
            for verb in ("prove", "approve"):
                await inst.step(version["ref"], verb)
            refused = await inst.call("POST", "/adapters/acme/support/versions/1/promote")
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
            assert "'small' takes ranks up to 1; acme/support@1 is of rank" in refused.json()["detail"]
            await inst.ok("POST", "/pools/default/assign", {"tenant": ACME, "base": "tiny"})
            await inst.ok("POST", "/adapters/acme/support/versions/1/promote")

    run(story())


def test_what_is_no_pool_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.ok("POST", "/pools", {"pool": "big", "base": "tiny"})
            cases = [
                ("POST", "/pools", {"pool": "big", "base": "tiny"}, 409),
                ("POST", "/pools", {"pool": "default", "base": "tiny"}, 409),
                ("POST", "/pools", {"pool": "new", "base": "none"}, 404),
                ("POST", "/pools", {"pool": "New", "base": "tiny"}, 400),
                ("POST", "/pools", {"pool": "new", "base": "tiny", "rank_class": 0}, 400),
                ("POST", "/pools", {"pool": "new", "base": "tiny", "kind": "private"}, 400),
                ("POST", "/pools", {"pool": "new", "base": "tiny", "release_schedule": "always"}, 400),
                ("POST", "/pools/big/schedule", {"release_schedule": "mon 10:00"}, 400),
                ("POST", "/pools/none/schedule", {"release_schedule": None}, 404),
                ("POST", "/pools/none/assign", {"tenant": ACME}, 404),
                ("POST", "/pools/big/assign", {"tenant": "nobody"}, 404),
                ("POST", "/pools/big/assign", {"worker": "none"}, 404),
                ("POST", "/pools/big/assign", {"tenant": ACME, "worker": "gpu-1"}, 400),
                ("POST", "/pools/big/assign", {"tenant": ACME, "base": "none"}, 404),
                ("DELETE", "/pools/none", None, 404),
            ]
            for method, path, body, status in cases:
                response = await inst.call(method, path, body)
                assert response.status_code == status, (path, body, response.text)

    run(story())


def test_only_an_admin_may_change_pools_and_workers(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            made = await inst.ok("POST", "/operators", {"name": "dee", "roles": ["deployer", "publisher", "reviewer"]})
            for path, body in (
                ("/pools", {"pool": "big", "base": "tiny"}),
                ("/pools/big/assign", {"tenant": ACME}),
                ("/pools/big/assign", {"worker": "gpu-1"}),
                ("/pools/big/schedule", {"release_schedule": None}),
                ("/workers/gpu-1/cordon", {}),
                ("/freeze", {}),
                ("/unfreeze", {}),
            ):
                assert (await inst.call("POST", path, body, token=made["token"])).status_code == 403, path
            assert (await inst.call("DELETE", "/workers/gpu-1", token=made["token"])).status_code in (403, 404)
            assert (await inst.call("GET", "/pools", token=made["token"])).status_code == 200

    run(story())


def test_a_pool_takes_new_versions_within_its_release_schedule_only(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.ok("POST", "/pools", {"pool": "big", "base": "tiny", "release_schedule": "mon 09:00-16:00"})
            await inst.ok("POST", "/pools/big/assign", {"tenant": ACME})
            version = await inst.push("acme/support", inst.adapter())
            for verb in ("prove", "approve"):
                await inst.step(version["ref"], verb)
            inst.clock.now_s = 4 * 86_400 + 8 * 3600.0  # Monday the 5th of January 1970, 08:00
            refused = await inst.call("POST", "/adapters/acme/support/versions/1/promote", {})
            assert (refused.status_code, "mon 09:00-16:00" in refused.json()["detail"]) == (409, True)
            inst.clock.now_s += 3600.0
            assert (await inst.step(version["ref"], "promote"))["state"] == "active"
            shown = await inst.ok("POST", "/pools/big/schedule", {"release_schedule": None})
            assert shown["release_schedule"] is None

    run(story())


def test_no_version_is_rolled_out_while_all_is_frozen(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            version = await inst.push("acme/support", inst.adapter())
            for verb in ("prove", "approve"):
                await inst.step(version["ref"], verb)
            assert (await inst.ok("POST", "/freeze", {}))["is_frozen"] is True
            assert inst.holder.newest.is_frozen
            assert (await inst.ok("GET", "/status"))["is_frozen"] is True
            refused = await inst.call("POST", "/adapters/acme/support/versions/1/promote", {})
            assert (refused.status_code, "frozen" in refused.json()["detail"]) == (409, True)
            await inst.ok("POST", "/freeze", {})
            assert (await inst.ok("POST", "/unfreeze", {}))["is_frozen"] is False
            assert not inst.holder.newest.is_frozen
            assert (await inst.step(version["ref"], "promote"))["state"] == "active"
            assert await audited(inst, "freeze") == [("freeze", "fleet")]
            assert await audited(inst, "unfreeze") == [("unfreeze", "fleet")]

    run(story())
