"""Publishing: what is admitted under which name and number, and what a refusal leaves behind (nothing)."""

import asyncio
from pathlib import Path

import pytest

from hotset.control.actors import LOCAL_ADMIN
from hotset.control.publishing import Submission
from hotset.core.errors import DigestMismatchError
from hotset.core.ids import AdapterId, BaseName, TenantId
from hotset.storage.blobs import BlobStore
from tests.support.installation import Installation, installation, run

SUPPORT = AdapterId(TenantId("acme"), "support")


async def prepared(inst: Installation) -> None:
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})


def num_blobs(inst: Installation) -> int:
    return len(list(inst.control.blobs.digests()))


def staged(inst: Installation) -> list[str]:
    return [path.name for path in inst.folder.staging.iterdir() if path.name != "incoming"]


def test_a_repeated_push_is_the_same_version_and_other_bytes_are_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            first = await inst.push("acme/support", inst.adapter())
            again = await inst.push("acme/support", inst.adapter())
            other = await inst.push("acme/support", inst.adapter("other", seed=1))
            assert (first["ref"], first["is_new"]) == ("acme/support@1", True)
            assert (again["ref"], again["is_new"]) == ("acme/support@1", False)
            assert (other["ref"], other["is_new"]) == ("acme/support@2", True)
            assert staged(inst) == []

    run(story())


def test_retired_bytes_come_back_as_a_new_number(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.push("acme/support", inst.adapter())
            assert (await inst.step("acme/support@1", "retire"))["state"] == "rejected"
            again = await inst.push("acme/support", inst.adapter())
            assert (again["ref"], again["state"]) == ("acme/support@2", "verified")

    run(story())


def test_pushes_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            folders = [inst.adapter(f"a{seed}", seed=seed) for seed in range(4)]
            versions = await asyncio.gather(*(inst.push("acme/support", folder) for folder in folders))
            assert sorted(version["number"] for version in versions) == [1, 2, 3, 4]
            assert len({version["digest"] for version in versions}) == 4

    run(story())


def test_stored_bytes_are_the_pushed_ones(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            folder = inst.adapter()
            await inst.push("acme/support", folder)
            await inst.step("acme/support@1", "prove")
            assert inst.prover.seen == [{path.name: path.read_bytes() for path in folder.iterdir()}]

    run(story())


def test_a_refusal_names_its_reason_and_leaves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            upload = await inst.upload(inst.adapter("dora", config={"use_dora": True}))
            body = {"upload": upload, "base": "tiny"}
            verdict = await inst.ok("POST", "/verify", body)
            assert (verdict["verdict"], verdict["code"]) == ("refused", "dora_unsupported")
            refused = await inst.call("POST", "/adapters/acme/support/versions", body)
            assert refused.status_code == 422
            assert (refused.json()["code"], refused.json()["reason"]) == ("version_refused", "dora_unsupported")
            assert (await inst.ok("GET", "/adapters"))["adapters"] == []
            assert (num_blobs(inst), staged(inst)) == (0, [])
            used_up = await inst.call("POST", "/adapters/acme/support/versions", body)
            assert used_up.status_code == 404

    run(story())


def test_verify_stores_nothing_and_keeps_the_upload(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            body = {"upload": await inst.upload(inst.adapter()), "base": "tiny"}
            verdict = await inst.ok("POST", "/verify", body)
            assert (verdict["verdict"], verdict["code"]) == ("accepted", None)
            assert {module["rank"] for module in verdict["modules"]} == {8}
            assert num_blobs(inst) == 0
            version = await inst.ok("POST", "/adapters/acme/support/versions", body)
            assert version["digest"] == verdict["digest"]
            narrow = await inst.ok(
                "POST", "/verify", {"folder": str(inst.adapter("wide", rank=16)), "base": "tiny", "rank_max": 8}
            )
            assert narrow["code"] == "rank_over_limit"

    run(story())


def test_overrides_are_recorded_where_they_were_needed(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            folder = inst.adapter("elsewhere", config={"base_model_name_or_path": "someone/else"})
            refused = await inst.ok("POST", "/verify", {"folder": str(folder), "base": "tiny"})
            assert refused["code"] == "base_mismatch"
            body = {"folder": str(folder), "base": "tiny", "overrides": ["other_base", "ignore_shipped_tokenizer"]}
            version = await inst.ok("POST", "/adapters/acme/support/versions", body)
            assert version["overrides"] == ["other_base"]
            unknown = await inst.call("POST", "/verify", {**body, "overrides": ["trust_me"]})
            assert (unknown.status_code, unknown.json()["code"]) == (400, "invalid_request")

    run(story())


def test_a_local_folder_is_read_without_following_links(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            folder = inst.adapter()
            version = await inst.ok("POST", "/adapters/acme/support/versions", {"folder": str(folder), "base": "tiny"})
            assert version["state"] == "verified"
            linked = tmp_path / "linked"
            linked.mkdir()
            for path in folder.iterdir():
                (linked / path.name).symlink_to(path)
            refused = await inst.call("POST", "/adapters/acme/other/versions", {"folder": str(linked), "base": "tiny"})
            assert (refused.status_code, refused.json()["reason"]) == (422, "file_link")
            assert staged(inst) == []

    run(story())


@pytest.mark.parametrize("body", [{"base": "tiny"}, {"base": "tiny", "upload": "0" * 32, "folder": "/x"}])
def test_one_source_is_named(tmp_path: Path, body: dict[str, str]) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            answer = await inst.call("POST", "/verify", body)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")

    run(story())


NAMES_REFUSED = [
    ("nobody/support", "tiny", 404, "not_found"),
    ("acme/support", "other", 404, "not_found"),
    ("acme/Support", "tiny", 409, "conflict"),
    ("acme/tiny", "tiny", 409, "conflict"),
    ("acme/TINY", "tiny", 409, "conflict"),
    ("acme/taken", "tiny", 409, "conflict"),
    ("acme/sup port", "tiny", 400, "invalid_name"),
    ("Acme/support", "tiny", 400, "invalid_name"),
    ("acme/s%C3%BCpport", "tiny", 400, "invalid_name"),
]


def test_names_that_collide_or_do_not_exist(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.push("acme/support", inst.adapter())
            await inst.ok("POST", "/grants", {"tenant": "acme", "alias": "taken", "base": "tiny"})
            blobs = num_blobs(inst)
            folder = str(inst.adapter("other", seed=1))
            for ref, base, status, code in NAMES_REFUSED:
                answer = await inst.call("POST", f"/adapters/{ref}/versions", {"folder": folder, "base": base})
                assert (answer.status_code, answer.json()["code"]) == (status, code), (ref, answer.text)
            assert num_blobs(inst) == blobs

    run(story())


class SwappingStore(BlobStore):
    """Stands for a disk whose bytes change between verification and storing."""

    def ingest(self, source: Path, on_bytes: object = None) -> tuple[str, int]:  # type: ignore[override]
        content = bytearray(source.read_bytes())
        content[-1] ^= 1
        source.write_bytes(content)
        return super().ingest(source)


def test_bytes_that_change_after_verification_are_not_published(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            inst.control.publishing._blobs = SwappingStore(inst.folder.blobs)
            submission = Submission(base=BaseName("tiny"), folder=inst.adapter())
            with pytest.raises(DigestMismatchError):
                await inst.control.publishing.publish(LOCAL_ADMIN, SUPPORT, submission)
            assert (await inst.ok("GET", "/adapters"))["adapters"] == []

    run(story())


def test_removing_the_alias_keeps_it_away_from_later_versions(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await prepared(inst)
            await inst.push("acme/support", inst.adapter())
            await inst.ok("DELETE", "/grants/acme/support")
            await inst.push("acme/support", inst.adapter("other", seed=1))
            assert (await inst.ok("GET", "/grants"))["grants"] == []

    run(story())
