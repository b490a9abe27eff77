"""What stands between bytes and service: proof, separation of duties, signatures, bans; and what tampering meets."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotset.core.errors import (
    ApprovalInvalidError,
    DigestMismatchError,
    EngineUnavailableError,
    ProofFailedError,
)
from hotset.core.ports import Withdrawal
from hotset.registry.approval import check_approval
from tests.support.installation import Installation, installation, run, version_path


async def pushed(inst: Installation, ref: str = "acme/support", **bends: Any) -> str:
    await inst.add_base()
    owner = ref.partition("/")[0]
    if (await inst.call("GET", f"/tenants/{owner}")).status_code == 404:
        await inst.ok("POST", "/tenants", {"tenant": owner})
    return (await inst.push(ref, inst.adapter(ref.replace("/", "-"), **bends)))["ref"]


async def operator(inst: Installation, name: str, *roles: str) -> str:
    return (await inst.ok("POST", "/operators", {"name": name, "roles": list(roles)}))["token"]


def test_a_failed_proof_rejects_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            inst.prover.fails_with = ProofFailedError("numbers overflow")
            failed = await inst.call("POST", f"{version_path(ref)}/prove", {})
            assert (failed.status_code, failed.json()["code"]) == (422, "proof_failed")
            version = await inst.ok("GET", version_path(ref))
            assert (version["state"], version["reason"]) == ("rejected", "numbers overflow")
            inst.prover.fails_with = None
            for verb in ("prove", "approve", "promote", "retire"):
                answer = await inst.call("POST", f"{version_path(ref)}/{verb}", {})
                assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")

    run(story())


def test_an_engine_that_does_not_come_up_says_nothing_of_the_version(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            inst.prover.fails_with = EngineUnavailableError("no memory")
            assert (await inst.call("POST", f"{version_path(ref)}/prove", {})).status_code == 503
            assert (await inst.ok("GET", version_path(ref)))["state"] == "verified"

    run(story())


@pytest.mark.parametrize("verb", ["approve", "promote"])
def test_no_step_is_skipped(tmp_path: Path, verb: str) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            answer = await inst.call("POST", f"{version_path(ref)}/{verb}", {})
            assert (answer.status_code, answer.json()["code"]) == (409, "illegal_transition")
            assert inst.holder.newest.versions == {}

    run(story())


def test_who_published_cannot_approve_and_the_error_names_the_setting(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path, one_person=False) as inst:
            ref = await pushed(inst)
            await inst.step(ref, "prove")
            refused = await inst.call("POST", f"{version_path(ref)}/approve", {})
            assert refused.status_code == 403
            assert "one_person: true" in refused.json()["detail"]
            reviewer = await operator(inst, "rita", "reviewer")
            approved = await inst.step(ref, "approve", token=reviewer)
            assert approved["approval"]["reviewer"] == "rita"

    run(story())


def test_an_effect_below_the_noise_needs_a_reviewers_word(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            inst.prover.distance = 0.001
            await inst.step(ref, "prove")
            refused = await inst.call("POST", f"{version_path(ref)}/approve", {})
            assert (refused.status_code, refused.json()["param"]) == (409, "accept_unprovable")
            approved = await inst.step(ref, "approve", {"accept_unprovable": True})
            assert approved["state"] == "approved"

    run(story())


def test_promotion_lets_the_former_version_stand_by_and_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            await inst.serve("acme/support", inst.adapter("acme-support"))
            await inst.serve("acme/support", inst.adapter("second", seed=2))
            entry = next(iter(inst.holder.newest.aliases.values()))
            assert entry.active is not None
            assert (entry.active.number, sorted(entry.numbered)) == (2, [1, 2])
            await inst.step("acme/support@1", "promote")
            adapter = await inst.ok("GET", "/adapters/acme/support")
            assert adapter["active"] == 1
            assert [version["state"] for version in adapter["versions"]] == ["active", "standby"]
            again = await inst.step("acme/support@1", "promote")
            assert again["state"] == "active"
            retired = await inst.step("acme/support@1", "retire")
            assert retired["state"] == "retired"
            entry = next(iter(inst.holder.newest.aliases.values()))
            assert (entry.active, sorted(entry.numbered)) == (None, [2])

    run(story())


def test_a_flipped_blob_byte_is_met_at_the_next_reading(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            blob = max((inst.folder.blobs / "sha256").glob("*/*"), key=lambda path: path.stat().st_size)
            blob.chmod(0o600)
            content = bytearray(blob.read_bytes())
            content[-1] ^= 1
            blob.write_bytes(content)
            refused = await inst.call("POST", f"{version_path(ref)}/prove", {})
            assert (refused.status_code, refused.json()["code"]) == (422, "digest_mismatch")
            assert inst.prover.seen == []
            found = await inst.ok("POST", "/store/verify", {})
            assert found["damaged"] == ["sha256:" + blob.name]
            assert (await inst.ok("GET", version_path(ref)))["state"] == "verified"

    run(story())


def test_a_flipped_byte_after_approval_never_leaves_the_store(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            version = await inst.serve("acme/support", inst.adapter("acme-support"))
            weights = max(version["files"], key=lambda entry: entry["size_bytes"])
            blob = next((inst.folder.blobs / "sha256").glob(f"*/{weights['digest'].partition(':')[2]}"))
            blob.chmod(0o600)
            content = blob.read_bytes()
            blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            with pytest.raises(DigestMismatchError, match="now hash to"):
                inst.control.blobs.copy_verified(weights["digest"], tmp_path / "copy")
            assert not (tmp_path / "copy").exists()

    run(story())


def swap_approvals(database: Path, left: str, right: str) -> None:
    """Give each version the other's approval, as somebody with the file in hand could."""
    raw = sqlite3.connect(database)
    raw.execute("DROP TRIGGER approvals_no_update")
    rows = dict(raw.execute("SELECT name, approval_json FROM approvals").fetchall())
    for name, other in ((left, right), (right, left)):
        raw.execute("UPDATE approvals SET approval_json = ? WHERE name = ?", (rows[other], name))
    raw.commit()
    raw.close()


def test_an_approval_swapped_between_versions_is_no_approval(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            for ref, seed in (("acme/support", 0), ("acme/sales", 1)):
                version = await pushed(inst, ref, seed=seed)
                await inst.step(version, "prove")
                await inst.step(version, "approve")
            swap_approvals(inst.folder.database, "support", "sales")
            refused = await inst.call("POST", f"{version_path('acme/support@1')}/promote", {})
            assert (refused.status_code, refused.json()["code"]) == (409, "approval_invalid")

    run(story())


def test_tampering_with_a_served_versions_row_is_caught_by_who_loads_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            for ref, seed in (("acme/support", 0), ("acme/sales", 1)):
                await pushed(inst, ref, seed=seed)
                await inst.serve(ref, inst.adapter(ref.replace("/", "-")))
            swap_approvals(inst.folder.database, "support", "sales")
            await inst.control.commits.publish()
            assert len(inst.holder.newest.versions) == 2
            for record in inst.holder.newest.versions.values():
                with pytest.raises(ApprovalInvalidError):
                    check_approval(record, inst.folder.reviewer_keys())

    run(story())


def test_an_approval_replayed_for_another_number_is_no_approval(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            await inst.serve("acme/support", inst.adapter("acme-support"))
            record = next(iter(inst.holder.newest.versions.values()))
            keys = inst.folder.reviewer_keys()
            for forged in (
                msgspec.structs.replace(record, number=2),
                msgspec.structs.replace(record, owner="umbrella"),
                msgspec.structs.replace(record, base="sha256:" + "0" * 64),
                msgspec.structs.replace(record, digest="sha256:" + "0" * 64),
                msgspec.structs.replace(record, approval=None),
            ):
                with pytest.raises(ApprovalInvalidError):
                    check_approval(forged, keys)

    run(story())


def test_a_reviewer_whose_key_was_taken_away_approves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            version = await pushed(inst)
            await inst.step(version, "prove")
            await inst.step(version, "approve")
        for path in (inst.folder.trust / "reviewers").iterdir():
            path.rename(tmp_path / "revoked.pem")
        async with installation(tmp_path) as inst:
            refused = await inst.call("POST", f"{version_path(version)}/promote", {})
            assert (refused.status_code, refused.json()["code"]) == (409, "approval_invalid")

    run(story())


def test_a_banned_digest_is_served_nowhere_and_never_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            version = await inst.serve("acme/support", inst.adapter("acme-support"))
            await inst.ok("POST", "/tenants", {"tenant": "umbrella"})
            await inst.serve("umbrella/copy", inst.adapter("acme-support"))
            banned = await inst.step("acme/support@1", "ban", {"reason": "poisoned"})
            assert (banned["is_banned"], banned["state"], banned["reason"]) == (True, "retired", "poisoned")
            assert inst.holder.newest.versions == {}
            assert inst.holder.cuts == [Withdrawal(digest=version["digest"])]
            copy = await inst.ok("GET", "/adapters/umbrella/copy/versions/1")
            assert (copy["is_banned"], copy["state"]) == (True, "retired")
            again = await inst.call(
                "POST",
                "/adapters/acme/support/versions",
                {"folder": str(inst.adapter("acme-support")), "base": "tiny"},
            )
            assert (again.status_code, again.json()["code"]) == (409, "conflict")
            assert "banned" in again.json()["detail"]

    run(story())


def test_purge_erases_what_no_other_version_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            await inst.serve("acme/support", inst.adapter("acme-support"))
            await inst.ok("POST", "/tenants", {"tenant": "umbrella"})
            await inst.push("umbrella/copy", inst.adapter("acme-support"))
            busy = await inst.call("POST", f"{version_path('acme/support@1')}/purge", {})
            assert (busy.status_code, busy.json()["code"]) == (409, "conflict")
            await inst.step("acme/support@1", "retire", {"cut": True})
            purged = await inst.step("acme/support@1", "purge")
            assert (purged["is_purged"], len(purged["files"])) == (True, 2)
            assert len(list(inst.control.blobs.digests())) == 2
            await inst.step("umbrella/copy@1", "purge")
            assert list(inst.control.blobs.digests()) == []
            await inst.step("umbrella/copy@1", "purge")
            refused = await inst.call("POST", f"{version_path('umbrella/copy@1')}/prove", {})
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")

    run(story())


def test_versions_that_do_not_exist(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            ref = await pushed(inst)
            for path in (version_path("acme/support@2"), version_path("acme/other@1"), "/adapters/acme/other"):
                assert (await inst.call("GET", path)).status_code == 404
            for number in ("0", "01", "x", "1000001", "%201"):
                assert (await inst.call("GET", f"/adapters/acme/support/versions/{number}")).status_code == 400
            assert (await inst.ok("GET", version_path(ref)))["ref"] == ref

    run(story())
