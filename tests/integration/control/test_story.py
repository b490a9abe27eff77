"""From an empty folder to a served version through the admin API, and what each step leaves behind."""

from pathlib import Path

from hotset.core.ids import AdapterId, Alias, TenantId, engine_name
from hotset.registry.approval import check_approval
from tests.support.installation import installation, run

ACME = TenantId("acme")


def test_a_version_is_pushed_proved_approved_promoted_and_routed(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            assert (await inst.add_base())["family"] == "llama"
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            issued = await inst.ok("POST", "/keys", {"tenant": "acme"})
            version = await inst.push("acme/support", inst.adapter())
            assert (version["ref"], version["state"], version["is_new"]) == ("acme/support@1", "verified", True)
            assert inst.holder.newest.aliases[ACME, Alias("support")].active is None
            assert inst.holder.newest.versions == {}

            proved = await inst.step("acme/support@1", "prove")
            assert (proved["state"], proved["proofs"][0]["engine"]) == ("proved", "scripted 1")
            assert inst.holder.newest.versions == {}
            approved = await inst.step("acme/support@1", "approve")
            assert approved["approval"]["reviewer"] == "local"
            assert inst.holder.newest.versions == {}
            promoted = await inst.step("acme/support@1", "promote")
            assert [step["state"] for step in promoted["history"]] == [
                "published",
                "verified",
                "proved",
                "approved",
                "active",
            ]

            snapshot = inst.holder.newest
            entry = snapshot.aliases[ACME, Alias("support")]
            assert entry.active is not None
            assert entry.adapter == AdapterId(ACME, "support")
            name = engine_name(entry.active)
            assert name == promoted["engine_name"]
            record = snapshot.versions[name]
            assert check_approval(record, inst.folder.reviewer_keys()).record == record
            assert issued["token"].startswith("hs_")
            assert {key.tenant for key in snapshot.keys.values()} == {ACME}
            epochs = [applied.epoch for applied in inst.holder.applied]
            assert epochs == sorted(set(epochs))

    run(story())
