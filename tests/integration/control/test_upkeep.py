"""Garbage, the store's health, the audit log."""

import sqlite3
from pathlib import Path

import pytest

from hotset.control.actors import LOCAL_ADMIN
from hotset.control.commits import Change
from hotset.core.errors import ConfigError
from hotset.core.ids import Alias, TenantId
from hotset.storage.rows import GrantRow
from tests.support.installation import Installation, installation, run


async def pushed(inst: Installation) -> None:
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})
    await inst.push("acme/support", inst.adapter())


def test_garbage_is_what_no_version_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            named = set(inst.control.blobs.digests())
            stray = tmp_path / "stray"
            stray.write_bytes(b"x" * 100)
            inst.control.blobs.ingest(stray)
            await inst.upload(inst.adapter("other", seed=1))
            freed = await inst.ok("POST", "/store/gc", {})
            assert freed == {"num_blobs": 1, "bytes": 100, "num_staging": 0}
            assert set(inst.control.blobs.digests()) == named

    run(story())


def test_a_start_clears_what_a_crash_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            stray = tmp_path / "stray"
            stray.write_bytes(b"x")
            inst.control.blobs.ingest(stray)
            upload = await inst.upload(inst.adapter("other", seed=1))
            (inst.folder.blobs / "incoming" / "half.part").write_bytes(b"x")
        async with installation(tmp_path) as inst:
            assert (await inst.call("DELETE", f"/uploads/{upload}")).status_code == 404
            assert len(list(inst.control.blobs.digests())) == 2
            assert list((inst.folder.blobs / "incoming").iterdir()) == []
            found = await inst.ok("POST", "/store/verify", {})
            assert (found["num_blobs"], found["damaged"], found["missing"]) == (2, [], [])

    run(story())


def test_missing_blobs_are_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            gone = next(iter(inst.control.blobs.digests()))
            inst.control.blobs.delete(gone)
            assert (await inst.ok("POST", "/store/verify", {}))["missing"] == [gone]

    run(story())


def test_a_blob_that_can_not_be_read_is_damaged(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            blob = next(path for path in (inst.folder.blobs / "sha256").rglob("*") if path.is_file())
            blob.rename(tmp_path / "elsewhere")
            blob.symlink_to(tmp_path / "elsewhere")
            found = await inst.ok("POST", "/store/verify", {})
            assert (len(found["damaged"]), found["missing"]) == (1, [])

    run(story())


def test_a_lost_database_costs_no_blob(tmp_path: Path) -> None:
    """To an empty database every blob is garbage."""

    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            blobs = set(inst.control.blobs.digests())
            database = inst.folder.database
        kept = database.rename(tmp_path / "kept.db")
        for _ in range(2):  # the first refusal leaves an empty database behind
            with pytest.raises(ConfigError, match="was lost"):
                async with installation(tmp_path):
                    pass
        for suffix in ("-wal", "-shm"):  # the empty database's
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        kept.replace(database)
        async with installation(tmp_path) as inst:
            assert set(inst.control.blobs.digests()) == blobs
            assert (await inst.ok("POST", "/store/verify", {}))["missing"] == []

    run(story())


def test_an_upload_is_thrown_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            upload = await inst.upload(inst.adapter())
            assert (await inst.call("DELETE", f"/uploads/{upload}")).status_code == 204
            assert (await inst.call("DELETE", f"/uploads/{upload}")).status_code == 404

    run(story())


def test_every_act_is_in_the_audit_log_and_reading_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            await inst.ok("GET", "/tenants")
            await inst.step("acme/support@1", "prove")
            await inst.call("POST", "/adapters/acme/support/versions/1/promote", {})  # refused, so no act
            entries = (await inst.ok("GET", "/audit"))["entries"]
            assert [(entry["actor"], entry["action"], entry["subject"]) for entry in entries[1:]] == [
                ("local", "base.add", "tiny"),
                ("local", "tenant.add", "acme"),
                ("local", "adapter.add", "acme/support"),
                ("local", "version.publish", "acme/support@1"),
                ("local", "version.prove", "acme/support@1"),
            ]
            assert [entry["number"] for entry in entries] == list(range(1, 7))
            page = await inst.ok("GET", "/audit?after=2&limit=2")
            assert [entry["number"] for entry in page["entries"]] == [3, 4]
            verdict = await inst.ok("GET", "/audit/verify")
            assert verdict == {"num_entries": 6, "is_intact": True, "first_broken": None}

    run(story())


def test_an_edited_audit_log_shows_where(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await pushed(inst)
            raw = sqlite3.connect(inst.folder.database)
            raw.execute("DROP TRIGGER audit_no_update")
            raw.execute("UPDATE audit SET actor = 'eve' WHERE number = 3")
            raw.commit()
            raw.close()
            verdict = await inst.ok("GET", "/audit/verify")
            assert (verdict["is_intact"], verdict["first_broken"]) == (False, 3)

    run(story())


def test_collecting_with_nothing_to_free_frees_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            freed = await inst.control.upkeep.collect_garbage(LOCAL_ADMIN)
            assert (freed.num_blobs, freed.num_bytes, freed.num_staging) == (0, 0, 0)

    run(story())


def test_a_change_that_can_not_be_published_is_not_made(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            before = inst.holder.newest

            class Grants:
                """What no transaction may leave behind: an alias that stands for nothing."""

                def all(self) -> list[GrantRow]:
                    return [GrantRow(TenantId("acme"), Alias("nothing"), None, None, 1.0)]

            def act(change: Change) -> None:
                change.audit("tenant.odd", "acme")
                change.catalogue.grants = Grants()  # type: ignore[assignment]

            with pytest.raises(AssertionError, match="adapter or a base"):
                await inst.control.commits.run(LOCAL_ADMIN, act)
            await inst.ok("POST", "/tenants", {"tenant": "umbrella"})
            assert inst.holder.newest.epoch == before.epoch + 1
            assert [each.action for each in await inst.control.upkeep.audit_entries(LOCAL_ADMIN)][-2:] == [
                "tenant.add"
            ] * 2

    run(story())
