"""The fleet as control follows it: registrations and fences, who is lost, and homes, published when they change."""

import asyncio
from pathlib import Path

import pytest

from hotset.control.fleet_numbers import fleet_numbers
from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.fleet import Heartbeat
from hotset.core.ids import Digest, EngineName, WorkerId, engine_name
from tests.integration.control.test_pools import prepared, worker
from tests.support.installation import Installation, installation, run

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


async def joined(inst: Installation, base: Digest, *names: str) -> dict[str, int]:
    """Register these workers and plan once; return their fences."""
    fences = {name: await inst.control.fleet.register(worker(name, base)) for name in names}
    await inst.control.fleet.reconcile()
    return fences


async def served(inst: Installation) -> EngineName:
    """Serve one adapter of acme's; return its engine name."""
    await inst.serve("acme/support", inst.adapter())
    name = engine_name(next(iter(inst.control.commits.snapshot.versions.values())).route)
    assert name is not None
    return name


def beat(name: str, fence: int, number: int, *, is_ready: bool = True, **told: object) -> Heartbeat:
    return Heartbeat(worker=WorkerId(name), fence=fence, number=number, is_ready=is_ready, **told)  # type: ignore[arg-type]


def test_a_version_gets_a_home_and_moves_when_its_worker_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            name, fleet = (await prepared(inst), await served(inst))[1], inst.control.fleet
            base = inst.control.commits.snapshot.versions[name].base
            fences = await joined(inst, base, "a", "b", "c")
            (home,) = inst.holder.newest.homes[name]
            epoch = inst.holder.newest.epoch
            await fleet.reconcile()
            assert inst.holder.newest.epoch == epoch  # nothing changed, nothing is published
            inst.clock.now_s += 16.0
            for other in sorted({A, B, C} - {home}):
                assert fleet.report(beat(other, fences[other], 1))
            (move,) = await fleet.reconcile()
            assert (move.cause, move.removed) == ("lost", (home,))
            assert inst.holder.newest.homes[name] == move.added
            assert home not in inst.holder.newest.workers
            listed = {row["worker"]: row for row in (await inst.ok("GET", "/workers"))["workers"]}
            assert [listed[each]["is_lost"] for each in (home, *move.added)] == [True, False]
            assert listed[move.added[0]]["num_homes"] == 1
            assert fleet.report(beat(home, fences[home], 1))
            await fleet.reconcile()
            assert home in inst.holder.newest.workers
            numbers = fleet_numbers(inst.control, inst.clock)
            assert (numbers.num_lost, numbers.moves["lost"], numbers.workers["lost"]) == (1, 1, 0)
            assert (numbers.workers["serving"], numbers.num_homeless) == (3, 0)

    run(story())


def test_an_agent_that_left_for_certain_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            fences = await joined(inst, base, "a", "b")
            inst.control.fleet.left(A, fences["a"] - 1)
            inst.control.fleet.left(C, 1)
            await inst.control.fleet.reconcile()
            assert sorted(inst.holder.newest.workers) == ["a", "b"]
            inst.control.fleet.left(A, fences["a"])
            await inst.control.fleet.reconcile()
            assert sorted(inst.holder.newest.workers) == ["b"]
            assert await inst.control.fleet.register(worker("a", base)) > fences["b"]
            assert sorted(inst.holder.newest.workers) == ["a", "b"]

    run(story())


def test_a_second_agent_of_one_identity_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, fleet = await prepared(inst), inst.control.fleet
            first = await fleet.register(worker("a", base))
            with pytest.raises(ConflictError, match="serves nothing"):
                await fleet.register(worker("a", base))
            assert await fleet.register(worker("a", base, rank_class=32), held_fence=first) == first
            assert inst.holder.newest.workers[A].facts.rank_class == 32
            inst.clock.now_s += 16.0
            second = await fleet.register(worker("a", base))
            assert second > first
            assert fleet.report(beat("a", second, 1))
            assert not fleet.report(beat("a", first, 99))
            assert fleet.sights()[A].heartbeat.fence == second
            with pytest.raises(ConflictError):
                await fleet.register(worker("a", base), held_fence=first)

    run(story())


def test_late_and_repeated_heartbeats_change_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, fleet = await prepared(inst), inst.control.fleet
            fence = await fleet.register(worker("a", base))
            assert fleet.report(beat("a", fence, 5, num_running=5))
            inst.clock.now_s += 3.0
            assert fleet.report(beat("a", fence, 4, num_running=4))
            assert fleet.report(beat("a", fence, 5, num_running=6))
            sight = fleet.sights()[A]
            assert (sight.heartbeat.num_running, sight.age_s) == (5, 3.0)

    run(story())


def test_a_worker_whose_engine_does_not_serve_or_that_leaves_is_no_home(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, name, fleet = await prepared(inst), await served(inst), inst.control.fleet
            fences = await joined(inst, base, "a", "b")
            (home,) = inst.holder.newest.homes[name]
            (other,) = {A, B} - {home}
            for number in range(1, 9):
                inst.clock.now_s += 2.0
                fleet.report(beat(home, fences[home], number, is_ready=False))
                fleet.report(beat(other, fences[other], number))
                await fleet.reconcile()
                assert inst.holder.newest.homes[name] == ((home,) if number < 8 else (other,))
            assert home in inst.holder.newest.workers
            fleet.report(beat(home, fences[home], 9))
            fleet.report(beat(other, fences[other], 9, is_leaving=True))
            await fleet.reconcile()
            assert inst.holder.newest.homes[name] == (home,)

    run(story())


@pytest.mark.parametrize(("verb", "state"), [("cordon", "cordoned"), ("drain", "draining")])
def test_a_cordoned_or_draining_worker_gives_its_homes_away_and_gets_them_back(
    tmp_path: Path, verb: str, state: str
) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, name, fleet = await prepared(inst), await served(inst), inst.control.fleet
            fences = await joined(inst, base, "a", "b")
            (home,) = inst.holder.newest.homes[name]
            shown = await inst.ok("POST", f"/workers/{home}/{verb}", {})
            assert (shown["worker"], shown["state"]) == (home, state)
            assert inst.holder.newest.workers[home].state == state
            await fleet.reconcile()
            assert inst.holder.newest.homes[name] != (home,)
            picked = await inst.ok("GET", "/pick?tenant=acme&model=support")
            assert picked["workers"] == picked["homes"] != [home]
            await inst.ok("POST", f"/workers/{home}/uncordon", {})
            for number in range(1, 40):
                inst.clock.now_s += 2.0
                for each in (A, B):
                    fleet.report(beat(each, fences[each], number, resident=(name,)))
                await fleet.reconcile()
            assert inst.holder.newest.homes[name] == (home,)
            entries = (await inst.ok("GET", "/audit?limit=1000"))["entries"]
            assert [row["action"] for row in entries if row["action"].startswith("worker.")] == [
                f"worker.{verb}",
                "worker.uncordon",
            ]

    run(story())


def test_homes_stay_where_they_are_while_all_is_frozen(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, name, fleet = await prepared(inst), await served(inst), inst.control.fleet
            await joined(inst, base, "a", "b")
            homes = inst.holder.newest.homes
            await inst.ok("POST", "/freeze", {})
            await inst.ok("POST", f"/workers/{homes[name][0]}/cordon", {})
            assert await fleet.reconcile() == []
            assert inst.holder.newest.homes == homes
            await inst.ok("POST", "/unfreeze", {})
            (move,) = await fleet.reconcile()
            assert move.cause == "lost"

    run(story())


def test_control_that_starts_anew_takes_the_fleet_for_what_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, name = await prepared(inst), await served(inst)
            fences = await joined(inst, base, "a", "b")
            before = inst.holder.newest
        async with installation(tmp_path) as inst:
            assert (inst.holder.newest.workers, inst.holder.newest.homes) == (before.workers, before.homes)
            inst.clock.now_s += 10.0
            assert await inst.control.fleet.reconcile() == []
            assert inst.holder.newest.epoch == before.epoch
            assert await inst.control.fleet.register(worker("a", base), held_fence=fences["a"]) == fences["a"]
            inst.clock.now_s += 10.0
            await inst.control.fleet.reconcile()
            assert sorted(inst.holder.newest.workers) == ["a"]
            assert inst.holder.newest.homes == {name: (A,)}

    run(story())


def test_control_that_starts_anew_gives_nobodys_identity_away_before_its_agent_had_time_to_come(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            fences = await joined(inst, base, "a")
        async with installation(tmp_path) as inst:
            inst.clock.now_s += 14.0
            with pytest.raises(ConflictError, match="serves nothing"):
                await inst.control.fleet.register(worker("a", base))
            inst.clock.now_s += 2.0
            assert await inst.control.fleet.register(worker("a", base)) > fences["a"]

    run(story())


def test_a_worker_is_forgotten_only_when_it_is_lost_and_no_fence_comes_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = await prepared(inst)
            fences = await joined(inst, base, "a")
            assert (await inst.call("DELETE", "/workers/a")).status_code == 409
            assert (await inst.call("DELETE", "/workers/none")).status_code == 404
            assert (await inst.call("POST", "/workers/none/drain", {})).status_code == 404
            inst.control.fleet.left(A, fences["a"])
            await inst.control.fleet.reconcile()
            assert (await inst.ok("DELETE", "/workers/a"))["worker"] == "a"
            assert (await inst.ok("GET", "/workers"))["workers"] == []
            await inst.control.fleet.reconcile()
            assert A not in inst.control.fleet.heard
            assert await inst.control.fleet.register(worker("a", base)) > fences["a"]

    run(story())


def test_a_worker_that_asks_for_a_pool_gets_it_or_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, fleet = await prepared(inst), inst.control.fleet
            with pytest.raises(NotFoundError):
                await fleet.register(worker("a", base, pool="big"))
            assert inst.holder.newest.workers == {}
            await inst.ok("POST", "/pools", {"pool": "big", "base": "tiny", "rank_class": 32})
            with pytest.raises(ConflictError):
                await fleet.register(worker("a", base, pool="big", rank_class=16))
            await fleet.register(worker("a", base, pool="big", rank_class=32))
            assert inst.holder.newest.workers[A].pool == "big"
            await inst.ok("POST", "/pools/default/assign", {"worker": "a"})
            assert inst.holder.newest.workers[A].pool == "default"

    run(story())


def test_a_reserve_that_would_not_survive_a_loss_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, _ = await prepared(inst), await served(inst)
            await inst.ok("POST", "/tenants/acme/quota", {"reserve_slots": 2})
            await joined(inst, base, "a")
            (pool,) = (await inst.ok("GET", "/pools"))["pools"]
            assert pool["workers"] == ["a"]
            (warning,) = pool["warnings"]
            assert warning == (
                "Tenant acme, pool default: a is the pool's only worker; with it lost, nothing serves this tenant, "
                "whose reserve of 2 slots asks for a second one."
            )
            await joined(inst, base, "b")
            assert (await inst.ok("GET", "/pools"))["pools"][0]["warnings"] == []

    run(story())


def test_the_fleet_is_followed_until_it_is_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base, name = await prepared(inst), await served(inst)
            following = asyncio.create_task(inst.control.fleet.run())
            await inst.control.fleet.register(worker("a", base))
            async with asyncio.timeout(60):
                while name not in inst.holder.newest.homes:
                    await asyncio.sleep(0.05)
            assert inst.holder.newest.homes[name] == (A,)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run(story())
