"""Several gateways over one database: each job is run by one at a time, and one result is written, whoever dies."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from hotset.core.clock import SystemClock
from hotset.core.errors import EngineFailedError, SealBrokenError
from hotset.core.ids import JobId, KeyId
from hotset.gateway.jobs.book import JobBook, NewJob
from hotset.gateway.jobs.holding import Ended, HeldJob, Holding
from hotset.gateway.jobs.settings import JobSettings
from hotset.storage.database import Database
from hotset.storage.sealing import Sealer
from hotset.telemetry.metrics import Metrics
from tests.support.plane_world import PlaneWorld, open_book
from tests.support.snapshots import ACME, key_hash, three_tenants, token_of

SHORT = JobSettings(poll_s=0.02, lease_s=1.0, pause_min_s=0.0, attempts_max=4)
BODY = json.dumps({"model": "support", "messages": [{"role": "user", "content": "hello"}]}).encode()
NEW = NewJob(
    tenant=ACME,
    key=KeyId("key-acme"),
    key_sha256=key_hash(token_of("acme")),
    model="support",
    endpoint="chat",
    id_prefix="job_",
    epoch=1,
    body=BODY,
)


def book_at(folder: Path, settings: JobSettings = SHORT) -> JobBook:
    return open_book(folder, settings, Metrics(SystemClock()))


async def held(holding: Holding) -> HeldJob:
    found = await holding.claim({}, 1)
    assert isinstance(found, HeldJob)
    return found


def test_a_holder_taken_for_dead_writes_nothing_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        one, two = book_at(tmp_path, replace(SHORT, lease_s=3.0)), book_at(tmp_path, replace(SHORT, lease_s=600.0))
        row = await one.accept(NEW)
        dead, alive = Holding(one), Holding(two)
        first = await held(dead)
        assert await alive.claim({}, 1) is None, "it is held"
        await asyncio.sleep(3.1)
        second = await held(alive)
        assert second.row.job == row.job
        assert await dead.renew([first.hold]) == [first.hold]
        assert await dead.lost([first.hold]) == [first.hold]
        assert await alive.renew([second.hold]) == await alive.lost([second.hold]) == []
        assert await dead.complete(first, "support@2", b'"late"') is None
        assert await dead.fail(first, "support@2", EngineFailedError()) is None
        await dead.hand_back(first, after_s=0.0)
        assert await alive.complete(second, "support@2", b'"in time"') is not None
        assert await alive.complete(second, "support@2", b'"twice"') is None
        kept = await one.find(ACME, row.job)
        assert kept.result is not None
        assert bytes(kept.result.answer) == b'"in time"'
        close(one, two)

    uvloop.run(story())


def test_a_job_that_kills_whoever_holds_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        book = book_at(tmp_path, replace(SHORT, attempts_max=2))
        row = await book.accept(NEW)
        holding = Holding(book)
        for _ in range(2):
            await held(holding)
            await asyncio.sleep(1.1)
        ended = await holding.claim({}, 1)
        assert isinstance(ended, Ended)
        kept = await book.find(ACME, row.job)
        assert kept.result is not None
        assert kept.result.error is not None
        assert kept.result.error.code == "job_abandoned"
        close(book)

    uvloop.run(story())


def test_three_gateways_share_the_work_and_every_job_is_run_once(tmp_path: Path) -> None:
    async def story() -> None:
        worlds = [PlaneWorld(tmp_path, job_settings=replace(SHORT, lease_s=60.0)) for _ in range(3)]
        first = worlds[0].jobs
        assert first is not None
        jobs = [(await first.accept(NEW)).job for _ in range(40)]
        async with worlds[0].served(), worlds[1].served(), worlds[2].served():
            async with asyncio.timeout(60):
                while not await all_ended(first, jobs):
                    await asyncio.sleep(0.02)
            kept = [await first.find(ACME, job) for job in jobs]
        assert {one.row.life.state.value for one in kept} == {"completed"}
        shares = [len(world.agent.works) for world in worlds]
        assert sum(shares) == 40, shares
        assert all(one.row.life.attempts == 1 for one in kept)

    uvloop.run(story())


def test_a_gateway_that_lags_leaves_alone_what_it_can_not_judge(tmp_path: Path) -> None:
    async def story() -> None:
        world = PlaneWorld(tmp_path, job_settings=replace(SHORT, lease_s=60.0))
        book = world.jobs
        assert book is not None
        job = (await book.accept(replace(NEW, key_sha256="cd" * 32, epoch=2))).job
        async with world.served():
            await asyncio.sleep(0.3)
            assert (await book.peek(ACME, job)).life.fence == 0, "its key may be one that we do not know yet"
            world.app.apply(three_tenants(epoch=2))
            async with asyncio.timeout(60):
                while not await all_ended(book, [job]):
                    await asyncio.sleep(0.02)
            assert (await book.peek(ACME, job)).code == "unauthenticated"

    uvloop.run(story())


def test_a_gateway_cut_off_for_too_long_begins_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        world = PlaneWorld(tmp_path, job_settings=replace(SHORT, lease_s=60.0))
        book = world.jobs
        assert book is not None
        world.app.outdated_by(lambda: True)
        job = (await book.accept(NEW)).job
        async with world.served():
            await asyncio.sleep(0.3)
            assert (await book.peek(ACME, job)).life.fence == 0
            world.app.outdated_by(lambda: False)
            async with asyncio.timeout(60):
                while not await all_ended(book, [job]):
                    await asyncio.sleep(0.02)
            assert (await book.peek(ACME, job)).life.state.value == "completed"

    uvloop.run(story())


def test_a_job_sealed_under_a_lost_key_fails_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        world = PlaneWorld(tmp_path, job_settings=replace(SHORT, lease_s=60.0))
        book = world.jobs
        assert book is not None
        lost, good = (await book.accept(NEW)).job, (await book.accept(NEW)).job
        other = Sealer([b"x" * 32]).seal(BODY, job=lost, tenant=ACME, kind="body")
        database = Database(tmp_path / "hotset.db")
        with database.write() as catalogue:
            catalogue.jobs._connection.exec_driver_sql("UPDATE jobs SET sealed_body = ? WHERE id = ?", (other, lost))
        database.close()
        async with world.served():
            async with asyncio.timeout(60):
                while not await all_ended(book, [lost, good]):
                    await asyncio.sleep(0.02)
            assert (await book.peek(ACME, lost)).code == "seal_broken"
            assert (await book.peek(ACME, good)).life.state.value == "completed"
            with pytest.raises(SealBrokenError):
                await book.find(ACME, lost)

    uvloop.run(story())


async def all_ended(book: JobBook, jobs: list[JobId]) -> bool:
    rows = [await book.peek(ACME, job) for job in jobs]
    return all(row.life.ended_at_s is not None for row in rows)


def close(*books: JobBook) -> None:
    for book in books:
        book.transactions.close()
