"""What a file declares comes to be, once, and never goes back over an operator's own acts."""

from dataclasses import replace
from pathlib import Path

from hotset.control.actors import LOCAL_ADMIN
from hotset.control.declaring import Declared, Desired, DesiredAdapter, DesiredBase, DesiredGrant, declare
from hotset.control.declaring_pools import DesiredPool
from hotset.core.errors import ProofFailedError, VersionRefusedError
from hotset.core.ids import AdapterId, Alias, BaseName, PoolName, TenantId
from tests.support.bases import make_tiny_base
from tests.support.installation import Installation, installation, run

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")
SUPPORT, SALES = AdapterId(ACME, "support"), AdapterId(ACME, "sales")
TINY = BaseName("tiny")


def desired(inst: Installation) -> Desired:
    return Desired(
        bases=(DesiredBase(TINY, inst.root / "tiny", ("acme/tiny-llama",)),),
        tenants=(ACME, UMBRELLA),
        adapters=(DesiredAdapter(SUPPORT, inst.adapter("support"), TINY),),
        grants=(
            DesiredGrant(UMBRELLA, Alias("helper"), adapter=SUPPORT),
            DesiredGrant(UMBRELLA, base=TINY),
            DesiredGrant(ACME, adapter=SUPPORT),
        ),
    )


async def declared(inst: Installation, wanted: Desired) -> Declared:
    return await declare(inst.control, LOCAL_ADMIN, wanted)


def test_all_of_it_comes_to_be_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path) as inst:
            outcome = await declared(inst, desired(inst))
            assert outcome.failed == []
            assert outcome.changed == [
                "registered base tiny",
                "added tenant acme",
                "added tenant umbrella",
                "published acme/support@1",
                "proved acme/support@1",
                "approved acme/support@1",
                "promoted acme/support@1",
                "granted umbrella:helper",
                "granted umbrella:tiny",
            ]
            entry = inst.holder.newest.aliases[UMBRELLA, Alias("helper")]
            assert entry.active is not None
            epoch = inst.holder.newest.epoch
            again = await declared(inst, desired(inst))
            assert (again.changed, again.failed) == ([], [])
            assert inst.holder.newest.epoch == epoch

    run(story())


def test_new_bytes_are_a_new_version_and_old_ones_are_not_brought_back(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path) as inst:
            wanted = desired(inst)
            await declared(inst, wanted)
            newer = replace(wanted, adapters=(DesiredAdapter(SUPPORT, inst.adapter("newer", seed=5), TINY),))
            assert (await declared(inst, newer)).changed[0] == "published acme/support@2"
            assert (await declared(inst, wanted)).changed == []  # version 1 stands by, as promoting left it
            await inst.step("acme/support@2", "retire")
            assert (await declared(inst, newer)).changed == []
            await inst.ok("POST", "/tenants/acme/suspend", {})
            assert (await declared(inst, wanted)).changed == []
            assert ACME not in inst.holder.newest.tenants

    run(story())


def test_one_failure_stops_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path) as inst:
            bad = DesiredAdapter(SALES, inst.adapter("bad", config={"use_dora": True}), TINY)
            wanted = desired(inst)
            wanted = replace(
                wanted,
                bases=(*wanted.bases, DesiredBase(BaseName("gone"), tmp_path / "gone")),
                adapters=(bad, *wanted.adapters),
                grants=(*wanted.grants, DesiredGrant(UMBRELLA, Alias("helper"), base=TINY)),
            )
            outcome = await declared(inst, wanted)
            assert [subject for subject, _ in outcome.failed] == [
                "base gone",
                "adapter acme/sales",
                "grant umbrella:helper",
            ]
            assert isinstance(outcome.failed[1][1], VersionRefusedError)
            assert "promoted acme/support@1" in outcome.changed

    run(story())


def test_a_rejected_version_is_not_published_over_and_over(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path) as inst:
            inst.prover.fails_with = ProofFailedError("NaN")
            outcome = await declared(inst, desired(inst))
            assert [error.code for _, error in outcome.failed] == ["proof_failed"]
            inst.prover.fails_with = None
            assert (await declared(inst, desired(inst))).changed == []
            adapter = await inst.ok("GET", "/adapters/acme/support")
            assert [version["state"] for version in adapter["versions"]] == ["rejected"]

    run(story())


def test_without_one_person_a_reviewer_still_has_the_last_word(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path, one_person=False) as inst:
            outcome = await declared(inst, desired(inst))
            assert outcome.failed == []
            assert outcome.changed[-3] == "proved acme/support@1"
            token = (await inst.ok("POST", "/operators", {"name": "rita", "roles": ["reviewer"]}))["token"]
            await inst.step("acme/support@1", "approve", token=token)
            assert (await declared(inst, desired(inst))).changed == ["promoted acme/support@1"]

    run(story())


def test_pools_come_to_be_with_their_tenants_and_follow_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        make_tiny_base(tmp_path / "tiny")
        async with installation(tmp_path) as inst:
            pool = DesiredPool(PoolName("own"), TINY, "dedicated", 64, "mon 09:00-16:00", (ACME,))
            wanted = replace(desired(inst), adapters=(), grants=(), pools=(pool,))
            outcome = await declared(inst, wanted)
            assert outcome.failed == []
            assert outcome.changed[-2:] == ["added pool own", "put acme into pool own"]
            entry = inst.holder.newest.pools[PoolName("own")]
            assert (entry.kind, entry.rank_class, entry.tenants) == ("dedicated", 64, (ACME,))
            assert (await declared(inst, wanted)).changed == []
            await inst.ok("POST", "/pools/default/assign", {"tenant": ACME, "base": "tiny"})
            later = replace(pool, release_schedule="tue 09:00-16:00")
            outcome = await declared(inst, replace(wanted, pools=(later,)))
            assert outcome.changed == ["set release schedule of pool own", "put acme into pool own"]
            outcome = await declared(inst, replace(wanted, pools=(replace(pool, release_schedule=None),)))
            assert (outcome.changed, outcome.failed) == ([], [])
            outcome = await declared(inst, replace(wanted, pools=(replace(pool, kind="shared"),)))
            assert [subject for subject, _ in outcome.failed] == ["pool own"]

    run(story())
