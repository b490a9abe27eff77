"""Tenants, keys and grants: what a caller may do follows from them, at once."""

from pathlib import Path
from typing import Any

from hotset.control.tokens import token_sha256
from hotset.core.ids import Alias, KeyId, TenantId
from hotset.core.ports import Withdrawal
from tests.support.installation import Installation, installation, run

ACME = TenantId("acme")


async def tenant(inst: Installation, name: str = "acme") -> None:
    await inst.ok("POST", "/tenants", {"tenant": name})


async def key(inst: Installation, **body: Any) -> tuple[str, str]:
    issued = await inst.ok("POST", "/keys", {"tenant": "acme", **body})
    return issued["key"]["id"], issued["token"]


def test_a_key_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenant(inst)
            key_id, token = await key(inst, label="laptop", expires_in_s=60)
            assert token.startswith("hs_")
            assert len(token) == 46
            entry = inst.holder.newest.keys[token_sha256(token)]
            assert (entry.key, entry.tenant, entry.expires_at_s) == (key_id, ACME, inst.clock.now_s + 60)
            listed = await inst.ok("GET", "/keys?tenant=acme")
            assert [row["label"] for row in listed["keys"]] == ["laptop"]
            assert token not in str(listed)
            for path in (inst.root / "state").rglob("*"):
                if path.is_file():
                    assert token.encode() not in path.read_bytes(), path

    run(story())


def test_a_revoked_key_is_in_no_snapshot_from_the_answer_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenant(inst)
            key_id, token = await key(inst)
            revoked = await inst.ok("POST", f"/keys/{key_id}/revoke", {"cut": True})
            assert revoked["revoked_at_s"] == inst.clock.now_s
            assert token_sha256(token) not in inst.holder.newest.keys
            assert inst.holder.cuts == [Withdrawal(key=KeyId(key_id))]
            inst.clock.now_s += 5
            again = await inst.ok("POST", f"/keys/{key_id}/revoke", {})
            assert again["revoked_at_s"] == revoked["revoked_at_s"]
            assert (await inst.call("POST", "/keys/key-0/revoke", {})).status_code == 404

    run(story())


def test_an_alias_scope_travels_with_the_key(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            missing = await inst.call("POST", "/keys", {"tenant": "acme", "aliases": ["chat"]})
            assert missing.status_code == 404
            await inst.ok("POST", "/grants", {"tenant": "acme", "alias": "chat", "base": "tiny"})
            _, token = await key(inst, aliases=["chat"])
            assert inst.holder.newest.keys[token_sha256(token)].aliases == frozenset({"chat"})

    run(story())


KEYS_REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"tenant": "nobody"}, 404),
    ({"tenant": "ACME"}, 400),
    ({"tenant": "acme", "expires_in_s": 0}, 400),
    ({"tenant": "acme", "expires_in_s": 1e12}, 400),
    ({"tenant": "acme", "aliases": []}, 400),
    ({"tenant": "acme", "aliases": ["a:b"]}, 400),
    ({"tenant": "acme", "label": "x" * 129}, 400),
    ({"tenant": "acme", "label": "a\nb"}, 400),
    ({"tenant": "acme", "token": "hs_mine"}, 400),
    ({"tenant": 7}, 400),
    ({}, 400),
]


def test_keys_that_are_not_issued(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenant(inst)
            for body, status in KEYS_REFUSED:
                assert (await inst.call("POST", "/keys", body)).status_code == status, body
            assert inst.holder.newest.keys == {}

    run(story())


def test_suspending_withdraws_everything_and_resuming_gives_it_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            _, token = await key(inst)
            await inst.ok("POST", "/grants", {"tenant": "acme", "base": "tiny"})
            suspended = await inst.ok("POST", "/tenants/acme/suspend", {"cut": True})
            assert (suspended["state"], suspended["num_keys"]) == ("suspended", 1)
            snapshot = inst.holder.newest
            assert (snapshot.keys, snapshot.aliases, snapshot.tenants) == ({}, {}, frozenset())
            assert inst.holder.cuts == [Withdrawal(tenant=ACME)]
            assert (await inst.ok("POST", "/tenants/acme/resume", {}))["state"] == "active"
            snapshot = inst.holder.newest
            assert (list(snapshot.keys), list(snapshot.aliases)) == ([token_sha256(token)], [(ACME, Alias("tiny"))])

    run(story())


def test_a_removed_tenant_is_gone_and_its_name_stays_taken(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            await key(inst)
            await inst.serve("acme/support", inst.adapter())
            await tenant(inst, "umbrella")
            await inst.ok("POST", "/grants", {"tenant": "umbrella", "adapter": "acme/support"})
            held = await inst.call("DELETE", "/tenants/acme")
            assert (held.status_code, held.json()["code"]) == (409, "conflict")
            await inst.ok("DELETE", "/grants/umbrella/support")
            assert (await inst.ok("DELETE", "/tenants/acme?cut=true"))["state"] == "removed"
            snapshot = inst.holder.newest
            assert (snapshot.keys, snapshot.aliases, snapshot.versions) == ({}, {}, {})
            assert snapshot.tenants == frozenset({"umbrella"})
            for method, path, body in (
                ("POST", "/tenants", {"tenant": "acme"}),
                ("POST", "/keys", {"tenant": "acme"}),
                ("POST", "/tenants/acme/resume", {}),
                ("POST", "/grants", {"tenant": "umbrella", "adapter": "acme/support"}),
            ):
                assert (await inst.call(method, path, body)).status_code in (404, 409), path

    run(story())


def test_grants_map_aliases_and_removing_one_cuts_what_ran_under_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            await tenant(inst, "umbrella")
            await inst.serve("acme/support", inst.adapter())
            body = {"tenant": "umbrella", "alias": "team/helper", "adapter": "acme/support"}
            grant = await inst.ok("POST", "/grants", body)
            assert grant == {**body, "base": None, "created_at_s": inst.clock.now_s, "first_token_budget_ms": None}
            await inst.ok("POST", "/grants", {**body, "alias": "second"})
            entry = inst.holder.newest.aliases[TenantId("umbrella"), Alias("team/helper")]
            assert entry.active is not None
            assert (entry.active.number, entry.base_name) == (1, "tiny")
            await inst.ok("DELETE", "/grants/umbrella/second?cut=true")
            assert inst.holder.cuts == []  # the other alias still allows it
            await inst.ok("DELETE", "/grants/umbrella/team/helper?cut=true")
            assert inst.holder.cuts == [Withdrawal(tenant=TenantId("umbrella"), adapter=entry.adapter)]
            assert (await inst.call("DELETE", "/grants/umbrella/team/helper")).status_code == 404
            assert (await inst.call("DELETE", "/grants/umbrella/x?cut=maybe")).status_code == 400

    run(story())


GRANTS_REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"tenant": "acme", "alias": "CHAT", "base": "tiny"}, 409),
    ({"tenant": "acme", "alias": "chat", "base": "tiny"}, 409),
    ({"tenant": "acme", "alias": "Tiny", "base": "tiny"}, 409),
    ({"tenant": "acme", "alias": "tiny", "adapter": "acme/support"}, 409),
    ({"tenant": "acme", "adapter": "acme/other"}, 404),
    ({"tenant": "acme", "base": "other"}, 404),
    ({"tenant": "nobody", "base": "tiny"}, 404),
    ({"tenant": "acme"}, 400),
    ({"tenant": "acme", "base": "tiny", "adapter": "acme/support"}, 400),
    ({"tenant": "acme", "alias": "a@1", "base": "tiny"}, 400),
    ({"tenant": "acme", "alias": "c\u0430t", "base": "tiny"}, 400),
]


def test_grants_that_are_not_given(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            await inst.push("acme/support", inst.adapter())
            await inst.ok("POST", "/grants", {"tenant": "acme", "alias": "chat", "base": "tiny"})
            for body, status in GRANTS_REFUSED:
                answer = await inst.call("POST", "/grants", body)
                assert answer.status_code == status, (body, answer.text)
            assert len((await inst.ok("GET", "/grants?tenant=acme"))["grants"]) == 2

    run(story())


def test_a_base_takes_no_name_that_is_an_alias(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            await tenant(inst)
            await inst.ok("POST", "/grants", {"tenant": "acme", "alias": "chat", "base": "tiny"})
            again = await inst.ok(
                "POST", "/bases", {"folder": str(tmp_path / "tiny"), "name": "tiny", "synonyms": ["more"]}
            )
            assert again["synonyms"] == ["acme/tiny-llama", "more"]
            renamed = await inst.call("POST", "/bases", {"folder": str(tmp_path / "tiny"), "name": "tiny2"})
            assert renamed.status_code == 409
            (tmp_path / "tiny" / "generation_config.json").write_text("{}")
            for name in ("tiny", "Tiny", "chat", "Chat"):
                answer = await inst.call("POST", "/bases", {"folder": str(tmp_path / "tiny"), "name": name})
                assert (answer.status_code, answer.json()["code"]) == (409, "conflict"), name

    run(story())
