"""Quarantine and release: bytes are held back under any name, states stay, and nothing is promoted silently."""

from pathlib import Path

from hotset.core.ids import Alias, TenantId
from hotset.core.ports import Withdrawal
from tests.support.installation import Installation, installation, run, version_path

FIRST, SECOND = "acme/support@1", "acme/support@2"
WHY = {"reason": "answers oddly"}


async def served(inst: Installation) -> str:
    """Serve one version; return its digest."""
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})
    return (await inst.serve("acme/support", inst.adapter("one", seed=1)))["digest"]


def routed(inst: Installation) -> list[str]:
    return sorted(str(record.ref) for record in inst.holder.newest.versions.values())


def active(inst: Installation) -> int | None:
    entry = inst.holder.newest.aliases[TenantId("acme"), Alias("support")]
    return None if entry.active is None else entry.active.number


def test_a_version_in_quarantine_is_not_routed_and_serves_again_once_released(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await served(inst)
            held = await inst.step(FIRST, "quarantine", WHY)
            assert (held["is_quarantined"], held["state"]) == (True, "active")
            assert (routed(inst), active(inst), inst.holder.cuts) == ([], None, [])
        async with installation(tmp_path) as inst:
            assert routed(inst) == []
            freed = await inst.step(FIRST, "release", {"reason": "the disk was bad"})
            assert (freed["is_quarantined"], freed["state"]) == (False, "active")
            assert (routed(inst), active(inst)) == ([FIRST], 1)
            said = [(step["state"], step["reason"]) for step in freed["history"]][-2:]
            assert said == [("active", "quarantined: answers oddly"), ("active", "released: the disk was bad")]
            entries = (await inst.ok("GET", "/audit"))["entries"][-2:]
            assert [(each["action"], each["subject"]) for each in entries] == [
                ("version.quarantine", FIRST),
                ("version.release", FIRST),
            ]
            assert entries[0]["details"]["code"] == "operator"
            again = await inst.call("POST", f"{version_path(FIRST)}/release", WHY)
            assert (again.status_code, again.json()["code"]) == (409, "conflict")

    run(story())


def test_what_was_superseded_in_quarantine_stands_by_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await served(inst)
            await inst.step(FIRST, "quarantine", WHY)
            await inst.serve("acme/support", inst.adapter("two", seed=2))
            assert (routed(inst), active(inst)) == ([SECOND], 2)
            freed = await inst.step(FIRST, "release", WHY)
            assert freed["state"] == "standby"
            assert (routed(inst), active(inst)) == ([FIRST, SECOND], 2)

    run(story())


def test_in_quarantine_nothing_leads_to_serving_and_everything_away_from_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await served(inst)
            await inst.push("acme/support", inst.adapter("two", seed=2))
            await inst.step(SECOND, "prove")
            await inst.step(SECOND, "quarantine", WHY)
            for verb in ("approve", "promote"):
                refused = await inst.call("POST", f"{version_path(SECOND)}/{verb}", {})
                assert (refused.status_code, refused.json()["code"]) == (409, "conflict"), verb
                assert "quarantined" in refused.json()["detail"]
            assert (await inst.step(SECOND, "retire"))["state"] == "rejected"
            assert (await inst.step(SECOND, "release", WHY))["state"] == "rejected"

    run(story())


def test_every_version_of_the_bytes_is_held_back_and_what_runs_ends_where_that_is_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            digest = await served(inst)
            await inst.ok("POST", "/tenants", {"tenant": "umbrella"})
            await inst.serve("umbrella/copy", inst.adapter("one", seed=1))
            await inst.step("umbrella/copy@1", "quarantine", {**WHY, "cut": True})
            assert routed(inst) == []
            assert inst.holder.cuts == [Withdrawal(digest=digest)]  # pyright: ignore[reportArgumentType]
            assert (await inst.ok("GET", version_path(FIRST)))["is_quarantined"]
            await inst.step(FIRST, "release", WHY)
            assert routed(inst) == [FIRST, "umbrella/copy@1"]
            await inst.step(FIRST, "ban", WHY)
            refused = await inst.call("POST", f"{version_path(FIRST)}/quarantine", WHY)
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")

    run(story())


def test_who_published_a_version_does_not_release_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path, one_person=False) as inst:
            await inst.add_base()
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            roles = ["publisher", "reviewer"]
            ann, bob = [
                (await inst.ok("POST", "/operators", {"name": name, "roles": roles}))["token"]
                for name in ("ann", "bob")
            ]
            await inst.push("acme/support", inst.adapter(), token=ann)
            await inst.step(FIRST, "quarantine", WHY, token=ann)
            refused = await inst.call("POST", f"{version_path(FIRST)}/release", WHY, token=ann)
            assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
            assert "can't release it" in refused.json()["detail"]
            assert not (await inst.step(FIRST, "release", WHY, token=bob))["is_quarantined"]

    run(story())


def test_a_reason_is_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await served(inst)
            for verb in ("quarantine", "release", "ban"):
                for body in ({}, {"reason": ""}, {"reason": "a\nb"}, {"reason": "x" * 501}):
                    refused = await inst.call("POST", f"{version_path(FIRST)}/{verb}", body)
                    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request"), (verb, body)

    run(story())
