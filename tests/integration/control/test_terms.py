"""Terms of tenants, keys and aliases, from the operator to the snapshot."""

from pathlib import Path
from typing import Any

from hotset.control.actors import LOCAL_ADMIN, ROLES
from hotset.control.declaring import Declared, Desired, DesiredTerms, declare
from hotset.core.ids import Alias, TenantId
from hotset.core.terms import Terms, TermsChange
from tests.support.installation import Installation, installation, run

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")
NONE = {
    "requests_per_minute": None,
    "tokens_per_minute": None,
    "requests_in_flight_max": None,
    "first_token_budget_ms": None,
}


async def tenants(inst: Installation) -> None:
    for name in (ACME, UMBRELLA):
        await inst.ok("POST", "/tenants", {"tenant": name})


async def actions(inst: Installation) -> list[str]:
    return [row["action"] for row in (await inst.ok("GET", "/audit"))["entries"]]


def test_a_tenants_terms_are_answered_audited_and_in_the_snapshot_while_it_may_call(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            assert (await inst.ok("GET", "/tenants/acme"))["terms"] == NONE
            assert inst.holder.newest.terms == {}
            answer = await inst.ok("POST", "/tenants/acme/terms", {"requests_per_minute": 60, "tokens_per_minute": 9e5})
            assert answer["terms"] == {**NONE, "requests_per_minute": 60.0, "tokens_per_minute": 900_000.0}
            assert inst.holder.newest.terms == {ACME: Terms(60.0, 900_000.0)}
            before = inst.holder.newest
            await inst.ok("POST", "/tenants/acme/terms", {"requests_per_minute": 60})
            assert inst.holder.newest is before
            assert (await actions(inst)).count("tenant.terms") == 1
            await inst.ok("POST", "/tenants/acme/terms", {"tokens_per_minute": None, "first_token_budget_ms": 0})
            assert inst.holder.newest.terms == {ACME: Terms(60.0, first_token_budget_ms=0)}
        async with installation(tmp_path) as inst:
            assert inst.holder.newest.terms == {ACME: Terms(60.0, first_token_budget_ms=0)}
            await inst.ok("POST", "/tenants/acme/suspend", {})
            assert inst.holder.newest.terms == {}

    run(story())


def test_a_keys_terms_are_given_with_it_or_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            plain = (await inst.ok("POST", "/keys", {"tenant": "acme"}))["key"]
            assert plain["terms"] == NONE
            bound = (await inst.ok("POST", "/keys", {"tenant": "acme", "terms": {"requests_in_flight_max": 3}}))["key"]
            answer = await inst.ok("POST", f"/keys/{plain['id']}/terms", {"first_token_budget_ms": 800})
            assert answer["terms"] == {**NONE, "first_token_budget_ms": 800}
            listed = {row["id"]: row["terms"] for row in (await inst.ok("GET", "/keys"))["keys"]}
            assert listed[bound["id"]] == {**NONE, "requests_in_flight_max": 3}
            in_snapshot = {entry.key: entry.terms for entry in inst.holder.newest.keys.values()}
            assert in_snapshot == {
                plain["id"]: Terms(first_token_budget_ms=800),
                bound["id"]: Terms(requests_in_flight_max=3),
            }
            assert (await inst.call("POST", "/keys/key-none/terms", {})).status_code == 404

    run(story())


def test_an_alias_has_a_default_budget_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await inst.add_base()
            grant = {"tenant": "acme", "base": "tiny", "first_token_budget_ms": 700}
            assert (await inst.ok("POST", "/grants", grant))["first_token_budget_ms"] == 700
            assert inst.holder.newest.aliases[ACME, Alias("tiny")].first_token_budget_ms == 700
            answer = await inst.ok("POST", "/grants/acme/tiny", {"first_token_budget_ms": None})
            assert answer["first_token_budget_ms"] is None
            assert inst.holder.newest.aliases[ACME, Alias("tiny")].first_token_budget_ms is None
            await inst.ok("POST", "/grants/acme/tiny", {"first_token_budget_ms": None})
            assert (await actions(inst)).count("grant.budget") == 1
            for alias, budget_ms, status in (("other", 1, 404), ("tiny", 600_001, 400)):
                answer = await inst.call("POST", f"/grants/acme/{alias}", {"first_token_budget_ms": budget_ms})
                assert answer.status_code == status, alias

    run(story())


def test_what_is_no_terms_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            key = (await inst.ok("POST", "/keys", {"tenant": "acme"}))["key"]["id"]
            before = inst.holder.newest
            bad: dict[str, Any]
            for bad in ({"requests_per_minute": 0}, {"requests_in_flight_max": 1.5}, {"tokens": 5}):
                for path in ("/tenants/acme/terms", f"/keys/{key}/terms"):
                    assert (await inst.call("POST", path, bad)).status_code == 400, bad
                answer = await inst.call("POST", "/keys", {"tenant": "acme", "terms": bad})
                assert answer.status_code == 400, bad
            assert inst.holder.newest is before

    run(story())


def test_only_an_admin_sets_terms_and_a_deployer_budgets_of_aliases(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await tenants(inst)
            await inst.add_base()
            key = (await inst.ok("POST", "/keys", {"tenant": "acme"}))["key"]["id"]
            await inst.ok("POST", "/grants", {"tenant": "acme", "base": "tiny"})
            for role in ROLES:
                token = (await inst.ok("POST", "/operators", {"name": role, "roles": [role]}))["token"]
                for path, roles in (
                    ("/tenants/acme/terms", {"admin"}),
                    (f"/keys/{key}/terms", {"admin"}),
                    ("/grants/acme/tiny", {"admin", "deployer"}),
                ):
                    answer = await inst.call("POST", path, {"first_token_budget_ms": 5}, token=token)
                    assert answer.status_code == (200 if role in roles else 403), (role, path)

    run(story())


def test_terms_that_are_declared_are_set_once_and_again_where_somebody_changed_them(tmp_path: Path) -> None:
    desired = Desired(tenants=(ACME,), terms=(DesiredTerms(ACME, TermsChange(requests_per_minute=60.0)),))

    async def story() -> None:
        async with installation(tmp_path) as inst:

            async def declared() -> Declared:
                return await declare(inst.control, LOCAL_ADMIN, desired)

            assert (await declared()).changed == ["added tenant acme", "set terms of acme: requests_per_minute 60.0"]
            assert (await declared()).changed == []
            await inst.ok("POST", "/tenants/acme/terms", {"requests_per_minute": 5, "tokens_per_minute": 50})
            assert (await declared()).changed == ["set terms of acme: requests_per_minute 60.0"]
            assert inst.holder.newest.terms == {ACME: Terms(60.0, 50.0)}
            await inst.ok("DELETE", "/tenants/acme")
            assert (await declared()).changed == []

    run(story())
