"""What an agent shows of its slots: before its engine serves, while it does, after it died, and with true sizes."""

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx

from hotset.core.ids import BaseName, TenantId
from hotset.core.quotas import Quota
from hotset.core.residency_report import InventoryReport, NextRoom, ResidencyReport
from hotset.engines.settings import EngineSettings
from tests.support.agent_world import TENANT, AgentWorld, finish
from tests.support.live_server import live_server

OTHER = TenantId("other")


def report_of(world: AgentWorld) -> ResidencyReport:
    (worker,) = world.agent.view_residency()
    assert worker.residency is not None
    assert (worker.base, worker.num_slots) == (world.base.name, len(worker.residency.slots))
    return worker.residency


def resident(text: bytes) -> dict[tuple[str, str], float]:
    """Return bytes by tier and class of rank, as a scrape shows them."""
    found: dict[tuple[str, str], float] = {}
    for line in text.decode().splitlines():
        if line.startswith("hotset_adapter_resident_bytes{"):
            labels, _, value = line.rpartition(" ")
            found[labels.split('tier="')[1].split('"')[0], labels.split('rank="')[1].split('"')[0]] = float(value)
    return found


def test_an_agent_without_an_engine_shows_a_worker_without_slots(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path)
    (worker,) = world.agent.view_residency()
    assert (worker.base, worker.engine, worker.num_slots, worker.residency) == (world.base.name, None, 0, None)
    assert resident(world.metrics.text()) == {}


def test_leases_charges_and_evictions_are_shown_as_they_come_and_go(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path)
    world.quotas = {TENANT: Quota(reserve_slots=1, limit_slots=2), OTHER: Quota(limit_slots=2)}

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            assert report_of(world).next == NextRoom(slot=0)
            ticket = await world.submit("a")
            slot = report_of(world).slots[0]
            assert (slot.state, slot.version, slot.account) == ("hot", world.engine_name("a"), TENANT)
            assert (slot.num_running, slot.num_waiting, slot.users) == (1, 0, {TENANT: 1})
            await finish(ticket)
            assert report_of(world).slots[0].num_running == 0
            await world.answer("b", tenant=OTHER)
            assert report_of(world).next == NextRoom(slot=1, leaves=world.engine_name("b"))
            await world.answer("c", tenant=OTHER)
            shares = {share.tenant: share for share in report_of(world).tenants}
            assert shares[OTHER].caused == shares[OTHER].suffered == {"own": 1}
            assert (shares[TENANT].held, shares[TENANT].reserve) == (1, 1)
            sizes = sorted(size for _, size in report_of(world).warm.largest)
            assert sizes == sorted(world.records[name].manifest.files[0].size_bytes for name in "abc")
            assert resident(world.metrics.text()) == {("hot", "8"): 0, ("warm", "8"): sum(sizes)}
            world.publish_snapshot("a", "b")
            # What is withdrawn is on its way out; its rank went with its record.
            shown = resident(world.metrics.text())
            assert shown.keys() == {(tier, rank) for tier in ("hot", "warm") for rank in ("8", "other")}
            # This snapshot lets nobody call: what they evicted is remembered no more.
            assert all(share.caused == share.suffered == {} for share in report_of(world).tenants)

    asyncio.run(story())


def test_what_the_engine_itself_holds_and_runs_is_shown_beside_it(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path, watchdog_interval_s=0.0)  # whose questions would run there too

    async def inventory_after(moment_s: float) -> InventoryReport:
        while True:
            (worker,) = world.agent.view_residency()
            if worker.inventory is not None and time.monotonic() - worker.inventory.age_s > moment_s:
                return worker.inventory
            await asyncio.sleep(0.01)

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            assert (await inventory_after(0.0)).loaded == ()
            await world.answer("a")
            found = await inventory_after(time.monotonic())
            assert (found.loaded, found.num_running) == ((world.engine_name("a"),), 0)
            # What the agent knows nothing of is said all the same: it is the engine's word, not the agent's.
            await world.engines[0].unload(world.engine_name("a"))
            assert (await inventory_after(time.monotonic())).loaded == ()
            assert report_of(world).slots[0].state == "hot"

    asyncio.run(story())


def test_who_wants_a_slot_and_has_none_is_shown(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path, num_slots=1)
    world.quotas = {TENANT: Quota(reserve_slots=1)}

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            ticket = await world.submit("a")
            assert report_of(world).next == NextRoom(slot=None)
            wanting = asyncio.create_task(world.submit("b", tenant=OTHER))
            await asyncio.sleep(0)
            shares = {share.tenant: (share.held, share.num_wanting) for share in report_of(world).tenants}
            assert shares == {TENANT: (1, 0), OTHER: (0, 1)}
            wanting.cancel()
            await asyncio.wait({wanting})
            assert [share.tenant for share in report_of(world).tenants] == [TENANT]
            await finish(ticket)

    asyncio.run(story())


def test_a_dead_engines_slots_are_not_shown_any_more(tmp_path: Path) -> None:
    world = AgentWorld(tmp_path)

    async def story() -> None:
        async with asyncio.timeout(100), world.running():
            await world.answer("a")
            assert resident(world.metrics.text())["warm", "8"] > 0
            pid = world.engines[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            while world.agent.view_residency()[0].engine is not None:  # the next one takes a while to start
                await asyncio.sleep(0.001)
            assert resident(world.metrics.text())["warm", "8"] == 0

    asyncio.run(story())


def test_an_engine_that_counts_says_what_a_version_takes_in_its_slot(tmp_path: Path) -> None:
    engine = EngineSettings(num_slots=2, num_threads=1, kv_bytes_max=64 << 20, dtype="float32")

    async def story() -> None:
        async with live_server(tmp_path, {"acme": ("one",)}, engine) as live:
            headers = {"Authorization": f"Bearer {live.tokens['acme']}"}
            body = {"model": "one", "prompt": "hello", "max_tokens": 2}
            async with httpx.AsyncClient(base_url=live.addresses.tenant_url, headers=headers, timeout=60) as client:
                assert (await client.post("/v1/completions", json=body)).is_success
            (worker,) = live.server.pool.view_residency()
            assert worker.base == BaseName("tiny")
            assert worker.residency is not None
            hot, empty = worker.residency.slots
            # Rank 4 on two projections or five of each layer, as float32: some thousand bytes, and not its files' size.
            assert hot.slot_bytes is not None
            assert hot.slot_bytes > 1000
            assert empty.slot_bytes is None
            assert resident(live.server.metrics.text())["hot", "8"] == hot.slot_bytes

    asyncio.run(story())
