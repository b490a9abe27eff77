"""Control's view of gateways and workers apart: who is who, who applies what, and whom an alarm is about."""

import asyncio
import contextlib
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hotset.control.actors import LOCAL_ADMIN
from hotset.control.fleet_numbers import fleet_numbers
from hotset.control.holder_session import Session
from hotset.control.holders import Holders, known_holders
from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.fleet import Heartbeat, Suspicion, WorkerFacts
from hotset.core.ids import BaseName, Digest, EngineName, TenantId, WorkerId
from hotset.core.ports import Withdrawal
from hotset.core.residency_report import WorkerReport
from hotset.core.snapshot import Cut
from hotset.core.usage import Usage, UsageBatch
from hotset.links.holder_messages import BeatNow, Current, Fence, Register, UsageKept
from hotset.links.peers import Peer
from tests.support.installation import Installation, installation, run

W1, G1 = Peer("worker", "w1"), Peer("gateway", "g1")


@dataclass
class SentLink:
    """Keeps what is sent; stands in for a link."""

    sent: list[Any] = field(default_factory=list)
    closed: str = ""

    @property
    def is_open(self) -> bool:
        return not self.closed

    def send(self, message: Any) -> None:
        self.sent.append(message)

    async def writable(self) -> None:
        return

    def close(self, reason: str) -> None:
        self.closed = reason

    async def wait_ended(self) -> str:
        while self.is_open:
            await asyncio.sleep(0.01)
        return self.closed


def facts(base: Digest, address: str = "unix:/x") -> WorkerFacts:
    return WorkerFacts(
        worker=WorkerId("w1"), base=base, rank_class=64, num_slots=4, hardware_class="none", engine="x", address=address
    )


async def comes(holders: Holders, peer: Peer, instance: str, fence: int = 0) -> Session:
    session = await holders.register(Register(1, peer, instance, fence), SentLink())  # type: ignore[arg-type]
    holders.give_newest(session)
    await session.settled()
    return session


def holders_of(inst: Installation) -> Holders:
    control = inst.control
    holders = Holders(
        control.fleet, control.commits, control.usage, inst.clock, on_conflict=lambda _: None, retry_s=0.05
    )
    control.add_holders(holders)
    return holders


def sent(session: Session) -> list[Any]:
    return session.link.sent  # type: ignore[attr-defined]


def refuse(inst: Installation, *tables: str) -> None:
    """Let no row into these tables, as a database that can't be written does."""
    with contextlib.closing(sqlite3.connect(inst.folder.database)) as database:
        for table in tables:
            database.execute(
                f"CREATE TRIGGER full_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        database.commit()


def allow(inst: Installation, *tables: str) -> None:
    with contextlib.closing(sqlite3.connect(inst.folder.database)) as database:
        for table in tables:
            database.execute(f"DROP TRIGGER full_{table}")
        database.commit()


async def conflicts(inst: Installation) -> int:
    entries = (await inst.ok("GET", "/audit?limit=1000"))["entries"]
    return sum(entry["action"] == "identity.conflict" for entry in entries)


def test_of_two_agents_with_one_name_the_one_that_served_last_serves(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            counted: list[str] = []
            holders = Holders(
                inst.control.fleet, inst.control.commits, inst.control.usage, inst.clock, on_conflict=counted.append
            )
            inst.control.add_holders(holders)
            first = await comes(holders, W1, "first")
            await holders.facts(first, facts(base))
            fence = first.fence
            assert [each for each in sent(first) if isinstance(each, Fence)] == [Fence(fence)]
            with pytest.raises(ConflictError):
                await comes(holders, W1, "second")
            assert (counted, await conflicts(inst)) == (["worker"], 1)
            with pytest.raises(ConflictError):
                await comes(holders, W1, "second")
            assert await conflicts(inst) == 1, "an alarm for each process, not for each try"
            # Control lost sight of the first; the second comes before it, and still serves nothing.
            holders.ended(first)
            third = await comes(holders, W1, "third")
            with pytest.raises(ConflictError):
                await holders.facts(third, facts(base, "unix:/y"))
            back = await comes(holders, W1, "first", fence)
            assert not third.link.is_open
            holders.ended(third)
            await holders.facts(back, facts(base))
            assert back.fence == fence
            assert [view.fence for view in holders.views()] == [fence]
            assert await conflicts(inst) == 2

    run(story())


def test_an_agent_that_starts_again_in_its_folder_is_heard_from_its_first_heartbeat(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            fleet = inst.control.fleet
            holders = Holders(fleet, inst.control.commits, inst.control.usage, inst.clock, on_conflict=lambda _: None)
            inst.control.add_holders(holders)

            def beats(session: Session, number: int) -> None:
                heartbeat = Heartbeat(worker=WorkerId("w1"), fence=session.fence, number=number, is_ready=True)
                holders.heard(session, BeatNow(heartbeat, WorkerReport(base=BaseName("tiny"))))

            first = await comes(holders, W1, "first")
            await holders.facts(first, facts(base))
            beats(first, 500)
            holders.ended(first)
            again = await comes(holders, W1, "again", first.fence)
            await holders.facts(again, facts(base))
            inst.clock.now_s += 10
            beats(again, 1)
            inst.clock.now_s += 10
            await fleet.reconcile()
            assert again.fence == first.fence
            assert fleet.heard[WorkerId("w1")].heartbeat.number == 1
            assert WorkerId("w1") in inst.control.commits.snapshot.workers

    run(story())


def test_a_fence_that_control_never_gave_is_not_believed(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            fleet, holders = inst.control.fleet, holders_of(inst)
            honest = await comes(holders, W1, "honest")
            await holders.facts(honest, facts(base))
            with pytest.raises(ConflictError):
                await comes(holders, W1, "liar", honest.fence + 1)
            assert honest.link.is_open
            # It comes while the honest one is away, and keeps nobody out either.
            holders.ended(honest)
            liar = await comes(holders, W1, "liar", 1 << 40)
            beat = Heartbeat(worker=WorkerId("w1"), fence=1 << 40, number=1, is_ready=True)
            holders.heard(liar, BeatNow(beat, WorkerReport(base=BaseName("tiny"))))
            assert fleet.heard[WorkerId("w1")].heartbeat.fence == honest.fence
            back = await comes(holders, W1, "honest", honest.fence)
            assert not liar.link.is_open
            await holders.facts(back, facts(base))
            assert back.fence == honest.fence

    run(story())


def test_alarms_about_one_name_are_bounded_whoever_asks_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            holders = holders_of(inst)
            await comes(holders, G1, "first")
            for number in range(20):
                with pytest.raises(ConflictError):
                    await comes(holders, G1, f"impostor {number}")
            assert await conflicts(inst) == 8
            inst.clock.now_s += 3601.0
            with pytest.raises(ConflictError):
                await comes(holders, G1, "another")
            assert await conflicts(inst) == 9

    run(story())


def test_a_holder_whose_registration_fails_is_not_listed(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            holders = holders_of(inst)
            first = await comes(holders, W1, "first")
            await holders.facts(first, facts(base))
            holders.ended(first)
            older = await comes(holders, W1, "older")

            def fails(_role: str) -> None:
                raise RuntimeError("the counter is broken")

            holders._on_conflict = fails  # what an alarm does fails in a way that nobody foresaw
            with pytest.raises(RuntimeError):
                await comes(holders, W1, "first again", first.fence)
            assert not older.link.is_open
            assert holders.views() == []

    run(story())


def test_workers_get_no_keys_and_gateways_share_rates(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            await inst.ok("POST", "/keys", {"tenant": "acme"})
            holders = holders_of(inst)
            worker, gateway = await comes(holders, W1, "w"), await comes(holders, G1, "g")
            other = await comes(holders, Peer("gateway", "g2"), "h")
            for session in (worker, gateway, other):
                await session.settled()
            newest = {each.peer.name: sent(each)[-1] for each in (worker, gateway, other)}
            assert all(isinstance(each, Current) for each in newest.values())
            assert not newest["w1"].snapshot.keys
            assert len(newest["g1"].snapshot.keys) == 1
            assert [newest[name].snapshot.num_gateways for name in ("g1", "g2")] == [2, 2]
            holders.ended(other)
            await gateway.settled()
            assert sent(gateway)[-1].snapshot.num_gateways == 1

    run(story())


def test_a_gateway_that_was_away_hears_of_cuts_also_from_a_control_that_starts_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            await inst.ok("POST", "/tenants/acme/suspend", {"cut": True})
            cut = Cut(inst.control.commits.snapshot.epoch, Withdrawal(tenant=TenantId("acme")))
        async with installation(tmp_path) as inst:
            holders = holders_of(inst)
            worker, gateway = await comes(holders, W1, "w"), await comes(holders, G1, "g")
            assert sent(gateway)[-1].snapshot.cuts == (cut,)
            assert sent(worker)[-1].snapshot.cuts == ()
            inst.clock.now_s += 3000.0
            await inst.ok("POST", "/tenants/acme/resume", {})
            assert inst.holder.newest.cuts == (cut,)
            # To a gateway that applies more than this control ever published they are news all the same.
            await holders.overtake(gateway, 40)
            assert (inst.holder.newest.epoch, inst.holder.newest.cuts) == (41, (replace(cut, epoch=41),))
            inst.clock.now_s += 1000.0
            await inst.ok("POST", "/tenants/acme/suspend", {})
            assert inst.holder.newest.cuts == ()

    run(story())


def test_a_holder_is_behind_from_the_first_snapshot_that_it_did_not_acknowledge(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            fleet = inst.control.fleet
            holders = Holders(fleet, inst.control.commits, inst.control.usage, inst.clock, on_conflict=lambda _: None)
            inst.control.add_holders(holders)
            await inst.ok("POST", "/tenants", {"tenant": "acme"})
            session = await comes(holders, W1, "first")
            first = inst.control.commits.snapshot.epoch
            inst.clock.now_s += 2.0
            await inst.ok("POST", "/tenants", {"tenant": "umbrella"})
            inst.clock.now_s += 3.0
            session.applied(first)
            assert holders.lags_s() == {"worker": 5.0}
            assert fleet_numbers(inst.control, inst.clock).lags_s == {"worker": 5.0}
            session.applied(first + 1)
            assert holders.lags_s() == {"worker": 0.0}
            beat = Heartbeat(worker=WorkerId("w1"), fence=0, number=1)
            suspicion = Suspicion(version=EngineName("hs-x"), flaw="silent", incident=1)
            holders.heard(session, BeatNow(beat, WorkerReport(base=BaseName("tiny")), (suspicion,)))
            assert holders.suspicions() == {"w1": (suspicion,)}

    run(story())


def test_a_batch_of_usage_counts_once_and_is_acknowledged_each_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            holders = holders_of(inst)
            gateway = await comes(holders, G1, "g")
            usages = [Usage(tenant=TenantId("acme"), adapter="acme/a", requests=3)]
            for _ in range(2):
                await holders.count(gateway, UsageBatch("s", 1, int(inst.clock.wall_s()), usages))
            assert [each for each in sent(gateway) if isinstance(each, UsageKept)] == [UsageKept("s", 1)] * 2
            assert [row["requests"] for row in (await inst.ok("GET", "/usage"))["rows"]] == [3]

    run(story())


def test_a_database_that_refuses_writes_costs_no_link_and_what_was_said_counts_in_order_afterwards(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            holders = holders_of(inst)
            tables = ("usage", "gateways", "workers")
            refuse(inst, *tables)
            worker, gateway = await comes(holders, W1, "w"), await comes(holders, G1, "g")
            assert [any(isinstance(each, Current) for each in sent(holder)) for holder in (worker, gateway)] == [
                True
            ] * 2
            said: list[asyncio.Task[None]] = [asyncio.create_task(holders.facts(worker, facts(base)))]
            for number in (1, 2):
                usages = [Usage(tenant=TenantId("acme"), adapter="acme/a", requests=number)]
                batch = UsageBatch("s", number, int(inst.clock.wall_s()), usages)
                said.append(asyncio.create_task(holders.count(gateway, batch)))
            await asyncio.wait(said, timeout=0.5)
            assert not any(task.done() for task in said)
            assert await inst.control.commits.read(known_holders) == []
            assert (worker.link.is_open, gateway.link.is_open) == (True, True)
            allow(inst, *tables)
            async with asyncio.timeout(60):
                await asyncio.gather(*said)
                while await inst.control.commits.read(known_holders) != [G1, W1]:
                    await asyncio.sleep(0.01)
            kept = [each for each in sent(gateway) if isinstance(each, UsageKept)]
            assert kept == [UsageKept("s", 1), UsageKept("s", 2)]
            assert any(isinstance(each, Fence) for each in sent(worker))
            assert [row["requests"] for row in (await inst.ok("GET", "/usage"))["rows"]] == [3]

    run(story())


def test_what_waits_for_the_database_ends_with_the_link(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            holders = holders_of(inst)
            gateway = await comes(holders, G1, "g")
            refuse(inst, "usage_streams")
            counting = asyncio.create_task(holders.count(gateway, UsageBatch("s", 1, int(inst.clock.wall_s()), [])))
            await asyncio.wait({counting}, timeout=0.2)
            assert not counting.done()
            gateway.link.close("gone")
            async with asyncio.timeout(60):
                await counting
            assert not [each for each in sent(gateway) if isinstance(each, UsageKept)]

    run(story())


def test_who_is_gone_silent_or_behind_is_named_until_it_said_farewell(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            base = Digest((await inst.add_base())["digest"])
            holders = holders_of(inst)
            worker, gateway = await comes(holders, W1, "w"), await comes(holders, G1, "g")
            await holders.facts(worker, facts(base))
            assert await holders.missing() == []
            assert [each.name for each in await holders.behind(patience_s=0.0)] == ["g1", "w1"]
            worker.epoch = gateway.epoch = inst.control.commits.snapshot.epoch
            assert await holders.behind(patience_s=0.0) == []
            inst.clock.now_s += 9
            (silent,) = await holders.missing()
            assert (silent.name, silent.reason) == ("w1", "silent for 9 s; what is shown of it is as old")
            holders.ended(worker)
            holders.ended(gateway)
            assert [each.name for each in await holders.missing()] == ["g1", "w1"]
            assert [each.name for each in await holders.missing("worker")] == ["w1"]
            back = await comes(holders, G1, "g again")
            with pytest.raises(ConflictError):
                await inst.control.gateways.remove(LOCAL_ADMIN, "g1")
            back.is_leaving = True
            holders.ended(back)
            async with asyncio.timeout(60):
                while [each.name for each in await holders.missing()] != ["w1"]:
                    await asyncio.sleep(0.01)
            with pytest.raises(NotFoundError):
                await inst.control.gateways.remove(LOCAL_ADMIN, "g1")

    run(story())
