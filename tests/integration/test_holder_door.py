"""Control's door and workers that do wrong: none speaks for another one, or is in another one's way."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hotset.control.blob_grants import BlobGrants
from hotset.core.fleet import Heartbeat
from hotset.core.ids import BaseName, WorkerId
from hotset.core.residency_report import WorkerReport
from hotset.links.address import connect_blocking
from hotset.links.frames import frame
from hotset.links.holder_messages import Applied, BeatNow, Fetch, Register, Registered, Whole
from hotset.links.peers import Peer
from hotset.links.worker_messages import PROTOCOL
from tests.integration.test_blob_fetch import W1, W2, Far, run, snapshot_of
from tests.support.agent_world import blob_path

#: More than what a socket and a link hold for an end that does not read.
LARGE_BYTES = 2 << 20


def beat_of(worker: str, report: str) -> BeatNow:
    heartbeat = Heartbeat(worker=WorkerId(worker), fence=10**9, number=1, is_ready=True)
    return BeatNow(heartbeat, WorkerReport(base=BaseName("tiny"), worker=WorkerId(report)))


@pytest.mark.parametrize(
    ("me", "beat"),
    [
        (W1, beat_of("w2", "w2")),
        (W1, beat_of("w1", "w2")),
        (Peer("gateway", "w2"), beat_of("w2", "w2")),
    ],
)
def test_nobody_says_how_another_worker_is(tmp_path: Path, me: Peer, beat: BeatNow) -> None:
    async def scenario(world: Far) -> None:
        world.link.send(beat)
        async with asyncio.timeout(60):
            while world.link.is_registered:
                await asyncio.sleep(0.01)
        assert list(world.holders.view_residency()) == []

    run(tmp_path, scenario, me=me)


def test_control_whose_database_is_an_older_copy_numbers_above_what_is_applied_already(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        commits = world.holders._commits
        async with asyncio.timeout(60):
            world.holders.apply(replace(snapshot_of(world.versions, "a"), epoch=40))
            while world.holders.views()[0].epoch < 40:
                await asyncio.sleep(0.01)
            world.holders.apply(replace(snapshot_of(world.versions, "a"), epoch=2))
            while commits.snapshot.epoch < 41:
                await asyncio.sleep(0.01)
        (told,) = [
            each for each in await commits.read(lambda catalogue: catalogue.audit.entries()) if "epoch" in each.action
        ]
        assert (told.action, told.subject, told.details_json) == ("epoch.overtake", "worker w1", '{"epoch":40}')

    run(tmp_path, scenario)


def test_a_link_registers_once(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        world.link.send(Register(PROTOCOL, Peer("worker", "w2"), "again"))
        async with asyncio.timeout(60):
            while world.link.is_registered:
                await asyncio.sleep(0.01)
        assert Peer("worker", "w2") not in [view.peer for view in world.holders.views()]

    run(tmp_path, scenario)


def test_a_holder_that_applies_what_nobody_can_have_published_is_let_go_of(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        world.link.send(Applied(1 << 62))
        async with asyncio.timeout(60):
            while world.link.is_registered:
                await asyncio.sleep(0.01)
        assert world.holders._commits.snapshot.epoch < 40

    run(tmp_path, scenario)


def fetch(world: Far, me: Peer, name: str) -> socket.socket:
    """Show a grant on a link of its own, and read nothing."""
    word = world.grants.give(me, world.digest(name), world.holders.snapshot)
    end = connect_blocking(world.address, None, timeout_s=60)
    end.sendall(frame(Fetch(PROTOCOL, me, word)))
    return end


def read_to_the_end(end: socket.socket) -> bytes:
    received = b""
    while not received.endswith(frame(Whole())):
        content = end.recv(1 << 20)
        assert content
        received += content.replace(b"\x00\x00\x00\x00", b"") if len(content) == 4 else content
    return received


def test_a_worker_that_does_not_read_is_in_no_other_ones_way_and_in_its_own_for_a_while(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        blob = blob_path(world.versions, "a")
        blob.chmod(0o600)
        blob.write_bytes(b"x" * LARGE_BYTES)
        world.door.blobs = world.grants = BlobGrants(world.versions.blobs, world.clock, send_s=1.0)
        stuck = [await asyncio.to_thread(fetch, world, W1, "a") for _ in range(9)]
        others = await asyncio.to_thread(fetch, world, W2, "b")
        assert frame(Registered(world.door.me)) in await asyncio.to_thread(read_to_the_end, others)
        received = await asyncio.to_thread(read_to_the_end, stuck[-1])
        assert len(received) > LARGE_BYTES
        for each in (others, *stuck):
            each.close()

    run(tmp_path, scenario)
