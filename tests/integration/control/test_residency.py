"""What the admin API says of slots: the agents' reports, with the installation's names in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotset.core.ids import BaseName, EngineName, TenantId
from hotset.core.residency_report import (
    InventoryReport,
    NextRoom,
    ResidencyReport,
    SlotReport,
    TenantReport,
    WarmReport,
    WorkerReport,
)
from tests.support.installation import Installation, installation, run

ACME = TenantId("acme")
STRAY = EngineName("hs-" + "0" * 32)


class ScriptedViewer:
    """Reports what it was told to."""

    def __init__(self, *workers: WorkerReport) -> None:
        self.workers = workers

    def view_residency(self) -> Sequence[WorkerReport]:
        return self.workers


def worker(
    first: EngineName, second: EngineName, *, base: str = "tiny", cut: tuple[TenantId, ...] = ()
) -> WorkerReport:
    """Return a report of a worker that gives `first`'s slot to `second`."""
    tenant = TenantReport(
        tenant=ACME,
        reserve=1,
        limit=2,
        held=1,
        loads_left=2.5,
        loads_per_minute=60.0,
        caused={"borrow": 2},
        suffered={},
        reserve_bytes=5,
        store_bytes=30,
        store_caused={"own": 1},
    )
    slots = (
        SlotReport(
            index=0,
            state="closing",
            version=first,
            successor=second,
            account=ACME,
            leaving="own",
            hot_for_s=3.0,
            num_running=1,
            num_waiting=2,
            users={ACME: 3},
            slot_bytes=77,
            worth=-1.5,
        ),
        SlotReport(index=1, state="empty"),
    )
    return WorkerReport(
        base=BaseName(base),
        engine="scripted 1",
        num_slots=2,
        residency=ResidencyReport(
            slots=slots,
            next=NextRoom(slot=0, leaves=first),
            tenants=(tenant,),
            warm=WarmReport(num_versions=2, num_bytes=30, largest=((second, 20), (first, 10)), bytes_max=100),
            reserves_cut=cut,
            byte_reserves_cut=cut,
        ),
        inventory=InventoryReport(loaded=(second, STRAY), num_running=3, age_s=0.5),
    )


async def two_versions(inst: Installation) -> tuple[Any, Any]:
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})
    first = await inst.serve("acme/one", inst.adapter("one", seed=1))
    return first, await inst.serve("acme/two", inst.adapter("two", seed=2))


def test_without_an_engine_the_answer_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            response = await inst.call("GET", "/residency")
            assert (response.status_code, response.json()["code"]) == (503, "engine_unavailable")
            assert "hotset serve" in response.json()["detail"]

    run(story())


def test_versions_have_their_names_and_what_is_not_there_is_null(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            first, second = await two_versions(inst)
            inst.control.add_viewer(ScriptedViewer(worker(first["engine_name"], second["engine_name"], cut=(ACME,))))
            await inst.ok("POST", "/tenants/acme/quota", {"reserve_slots": 2, "reserve_bytes": 9})
            (shown,) = (await inst.ok("GET", "/residency"))["workers"]
            assert (shown["base"], shown["engine"], shown["num_slots"]) == ("tiny", "scripted 1", 2)
            assert shown["slots"][0] == {
                "index": 0,
                "state": "closing",
                "version": "acme/one@1",
                "rank": first["rank_max"],
                "successor": "acme/two@1",
                "account": "acme",
                "leaving": "own",
                "hot_for_s": 3.0,
                "load_s": None,
                "num_running": 1,
                "num_waiting": 2,
                "users": {"acme": 3},
                "slot_bytes": 77,
                "worth": -1.5,
            }
            assert [shown["slots"][1][name] for name in ("state", "version", "account", "worth")] == [
                *("empty", None, None, None)
            ]
            assert shown["next"] == {"slot": 0, "leaves": "acme/one@1"}
            (share,) = shown["tenants"]
            assert (share["held"], share["loads_left"], share["caused"]) == (1, 2.5, {"borrow": 2})
            assert (share["reserve_bytes"], share["store_bytes"], share["store_caused"]) == (5, 30, {"own": 1})
            assert shown["reserves_cut"] == [{"tenant": "acme", "reserve_slots": 2, "given": 1}]
            assert shown["byte_reserves_cut"] == [{"tenant": "acme", "reserve_bytes": 9, "given": 5}]
            assert shown["warm"] == {
                "num_versions": 2,
                "bytes": 30,
                "bytes_max": 100,
                "largest": [{"version": "acme/two@1", "bytes": 20}, {"version": "acme/one@1", "bytes": 10}],
            }
            assert shown["inventory"] == {"loaded": ["acme/two@1", STRAY], "num_running": 3, "age_s": 0.5}

    run(story())


def test_a_withdrawn_version_keeps_its_name_and_one_of_nobody_shows_the_engines(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            first, _ = await two_versions(inst)
            await inst.step("acme/one@1", "retire")
            inst.control.add_viewer(ScriptedViewer(worker(first["engine_name"], STRAY)))
            (shown,) = (await inst.ok("GET", "/residency"))["workers"]
            assert (shown["slots"][0]["version"], shown["slots"][0]["successor"]) == ("acme/one@1", STRAY)

    run(story())


def test_a_base_that_no_engine_serves_has_no_slots(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            inst.control.add_viewer(ScriptedViewer(WorkerReport(base=BaseName("tiny"))))
            (shown,) = (await inst.ok("GET", "/residency"))["workers"]
            assert (shown["engine"], shown["num_slots"], shown["slots"], shown["tenants"]) == (None, 0, [], [])
            assert (shown["next"], shown["warm"], shown["reserves_cut"]) == (None, None, [])
            assert shown["inventory"] is None

    run(story())


def test_one_base_may_be_asked_for_and_every_role_may_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.add_base()
            other = WorkerReport(base=BaseName("other"))
            inst.control.add_viewer(ScriptedViewer(other, worker(STRAY, STRAY)))
            inst.control.add_viewer(ScriptedViewer(WorkerReport(base=BaseName("third"))))
            everything = (await inst.ok("GET", "/residency"))["workers"]
            assert [shown["base"] for shown in everything] == ["other", "tiny", "third"]
            assert [row["base"] for row in (await inst.ok("GET", "/residency?base=tiny"))["workers"]] == ["tiny"]
            assert (await inst.call("GET", "/residency?base=nowhere")).status_code == 404
            assert (await inst.call("GET", "/residency?base=..")).json()["code"] == "invalid_name"
            for role in ("publisher", "reviewer", "deployer"):
                issued = await inst.ok("POST", "/operators", {"name": role, "roles": [role]})
                assert (await inst.ok("GET", "/residency", token=issued["token"]))["workers"] == everything
            assert (await inst.call("GET", "/residency", token="hso_none")).status_code == 401

    run(story())
