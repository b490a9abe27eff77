"""A worker on another machine reads the trusted store: by grants, over real links, with files that are not shared."""

import asyncio
import math
import os
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from hotset.control.blob_grants import GRANT_S, BlobGrants
from hotset.control.holder_door import HolderDoor
from hotset.control.holders import Holders
from hotset.core.clock import SystemClock
from hotset.core.errors import ControlUnreachableError, DigestMismatchError, HotsetError, PermissionDeniedError
from hotset.core.ids import Digest, EngineName
from hotset.core.snapshot import RoutingSnapshot
from hotset.links.address import TlsFiles, UnixAddress, connect_blocking, parse_address
from hotset.links.control_link import ControlLink
from hotset.links.frames import frame
from hotset.links.holder_messages import Fetch, Register
from hotset.links.peers import Peer
from hotset.links.worker_messages import PROTOCOL
from hotset.storage.blobs import BlobStore
from hotset.storage.kept_blobs import KeptBlobs
from hotset.worker.blob_fetch import BlobFetcher
from tests.integration.storage.test_kept_blobs import copy_of
from tests.support.agent_world import AgentWorld, blob_path, flip_last_byte
from tests.support.certificates import Authority
from tests.support.fake_clock import FakeClock
from tests.support.installation import Installation, installation

W1, W2, CONTROL = Peer("worker", "w1"), Peer("worker", "w2"), Peer("control", "control")


@dataclass
class Member:
    """A worker's part in what control says: it registers and looks on."""

    me: Peer
    epochs: list[int] = field(default_factory=list)

    def registering(self) -> Register:
        return Register(PROTOCOL, self.me, "instance")

    def registered(self) -> None: ...

    def rejected(self, code: str, message: str) -> None: ...

    def fenced(self, fence: int) -> None: ...

    def apply(self, snapshot: RoutingSnapshot) -> int:
        self.epochs.append(snapshot.epoch)
        return max(self.epochs)


@dataclass
class Far:
    """Control with its store, and one worker with another folder."""

    root: Path
    versions: AgentWorld
    clock: FakeClock
    grants: BlobGrants
    holders: Holders
    door: HolderDoor
    address: UnixAddress
    link: ControlLink
    fetcher: BlobFetcher
    kept: KeptBlobs
    fetched: list[tuple[str, int]]
    threads: ThreadPoolExecutor

    def digest(self, name: str) -> Digest:
        return self.versions.records[name].manifest.files[0].digest

    def size(self, name: str) -> int:
        return self.versions.records[name].manifest.files[0].size_bytes

    async def bring(self, name: str) -> None:
        # On threads of the worker's own: control, in this process too, reads its files on the loop's.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.threads, self.fetcher.bring, self.digest(name), self.size(name))

    async def refusal(self, name: str) -> HotsetError:
        with pytest.raises(HotsetError) as caught:
            await self.bring(name)
        return caught.value


def snapshot_of(versions: AgentWorld, *names: str) -> RoutingSnapshot:
    records: dict[EngineName, object] = {versions.engine_name(name): versions.records[name] for name in names}
    return RoutingSnapshot(epoch=1, versions=records, bases={versions.base.digest: versions.base})  # pyright: ignore


@asynccontextmanager
async def far(
    root: Path, inst: Installation, *, me: Peer = W1, files: dict[str, TlsFiles] | None = None
) -> AsyncIterator[Far]:
    versions, clock, fetched = AgentWorld(root / "near"), FakeClock(), list[tuple[str, int]]()
    holders = Holders(
        inst.control.fleet, inst.control.commits, inst.control.usage, inst.clock, on_conflict=lambda _: None
    )
    grants = BlobGrants(versions.blobs, clock)
    door = HolderDoor(holders, CONTROL, grants)
    wanted = UnixAddress(root / "run" / "c.sock") if files is None else parse_address("tls://127.0.0.1:0", "test")
    address = await door.open(wanted, files["control"] if files else None, "test")
    own = files["worker"] if files else None
    holders.apply(snapshot_of(versions, "a", "b"))
    member = Member(me)
    link = ControlLink(address, member, clock=SystemClock(), tls=own)
    kept = KeptBlobs(root / "far" / "kept", 1 << 20)
    fetcher = BlobFetcher(
        BlobStore(root / "far" / "blobs"),
        kept,
        me=me,
        address=address,
        tls=own,
        clock=SystemClock(),
        on_fetch=lambda outcome, num_bytes: fetched.append((outcome, num_bytes)),
    )
    fetcher.grants_from(link)
    running = asyncio.create_task(link.run())
    try:
        async with asyncio.timeout(60):
            while not member.epochs:
                await asyncio.sleep(0.01)
        with ThreadPoolExecutor(8) as threads:
            yield Far(root, versions, clock, grants, holders, door, address, link, fetcher, kept, fetched, threads)  # type: ignore[arg-type]
    finally:
        fetcher.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await door.close()


def run(root: Path, scenario: Callable[[Far], object], **more: object) -> None:
    async def body() -> None:
        async with asyncio.timeout(100), installation(root / "inst") as inst, far(root, inst, **more) as world:  # pyright: ignore
            await scenario(world)  # pyright: ignore

    asyncio.run(body())


def test_a_blob_comes_once_however_many_wait_for_it_and_is_kept(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        await asyncio.gather(*(world.bring("a") for _ in range(8)))
        assert copy_of(world.kept, world.digest("a"), tmp_path) == b"weights of a" * 100
        await world.bring("a")
        assert world.fetched == [("done", world.size("a"))]
        world.fetcher.copy_verified(world.digest("a"), tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == b"weights of a" * 100

    run(tmp_path, scenario)


def test_over_tls_the_worker_shows_its_certificate_for_the_blob_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    files = {"control": authority.issue("control", "control"), "worker": authority.issue("worker", "w1")}

    async def scenario(world: Far) -> None:
        await world.bring("b")
        assert copy_of(world.kept, world.digest("b"), tmp_path) == b"weights of b" * 100

    run(tmp_path, scenario, files=files)


def test_only_versions_that_the_worker_may_load_are_granted(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        assert type(await world.refusal("c")) is PermissionDeniedError  # in the store, and in no snapshot
        world.holders.apply(replace(snapshot_of(world.versions, "a", "c"), epoch=2))
        await world.bring("c")
        blob_path(world.versions, "a").unlink()
        assert "has no sha256" in (await world.refusal("a")).message
        with pytest.raises(PermissionDeniedError):
            world.grants.give(Peer("gateway", "g1"), world.digest("c"), world.holders.snapshot)

    run(tmp_path, scenario)


def test_a_grant_is_for_one_worker_and_a_short_time(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        snapshot = world.holders.snapshot
        others, own = (world.grants.give(peer, world.digest("a"), snapshot) for peer in (W2, W1))
        shown = Fetch(PROTOCOL, W1, own)

        def first_word(fetch: Fetch) -> bytes:
            with connect_blocking(world.address, None, timeout_s=60) as end:
                end.sendall(frame(fetch))
                return end.recv(200)

        assert b"registered" in await asyncio.to_thread(first_word, shown)
        for wrong in (
            Fetch(PROTOCOL, W1, others),
            Fetch(PROTOCOL, W1, "made up"),
            Fetch(PROTOCOL + 1, W1, own),
            Fetch(PROTOCOL, W1, own, offset=-1),
        ):
            assert b"rejected" in await asyncio.to_thread(first_word, wrong)
        world.clock.advance(GRANT_S)
        assert b"rejected" in await asyncio.to_thread(first_word, shown)
        words = [world.grants.give(W1, world.digest("a"), snapshot) for _ in range(65)]
        assert b"rejected" in await asyncio.to_thread(first_word, Fetch(PROTOCOL, W1, words[0]))
        assert b"registered" in await asyncio.to_thread(first_word, Fetch(PROTOCOL, W1, words[-1]))

    run(tmp_path, scenario)


def test_bytes_that_rotted_in_the_trusted_store_never_count_as_the_blob(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        flip_last_byte(blob_path(world.versions, "a"))
        assert type(await world.refusal("a")) is DigestMismatchError
        assert not world.kept.contains(world.digest("a"))
        assert {outcome for outcome, _ in world.fetched} == {"failed"}

    run(tmp_path, scenario)


def test_a_kept_blob_that_rotted_is_fetched_anew(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        await world.bring("a")
        (kept,) = (path for path in (tmp_path / "far" / "kept" / "sha256").rglob("*") if path.is_file())
        flip_last_byte(kept)
        with pytest.raises(DigestMismatchError):
            world.fetcher.copy_verified(world.digest("a"), tmp_path / "out")
        await world.bring("a")
        world.fetcher.copy_verified(world.digest("a"), tmp_path / "out")
        assert len(world.fetched) == 2

    run(tmp_path, scenario)


def test_without_control_what_was_fetched_is_there_and_the_rest_is_refused(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        await world.bring("a")
        await world.door.close()
        async with asyncio.timeout(60):
            while world.link.is_registered:
                await asyncio.sleep(0.01)
        await world.bring("a")
        assert type(await world.refusal("b")) is ControlUnreachableError

    run(tmp_path, scenario)


def test_what_is_cut_off_on_the_way_is_tried_again_from_where_it_stopped(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        digest, size = world.digest("a"), world.size("a")
        with pytest.raises(ConnectionError), world.kept.receiving(digest, size) as arriving:
            arriving.add((b"weights of a" * 100)[:500])
            raise ConnectionError
        await world.bring("a")
        assert world.fetched == [("done", size - 500)]
        assert copy_of(world.kept, digest, tmp_path) == b"weights of a" * 100

    run(tmp_path, scenario)


def test_a_fetcher_that_begins_removes_what_was_cut_off_long_ago(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        part = world.root / "far" / "kept" / "incoming" / ("0" * 64 + ".part")
        part.write_bytes(b"cut off")
        os.utime(part, (0.0, 0.0))
        await asyncio.to_thread(world.fetcher.begin)
        assert not part.exists()
        await world.bring("a")

    run(tmp_path, scenario)


def test_control_that_is_gone_before_it_is_asked_was_lost_and_no_disk_failed(tmp_path: Path) -> None:
    async def scenario(world: Far) -> None:
        end, other = socket.socketpair()
        with end, other:
            end.shutdown(socket.SHUT_WR)
            with pytest.raises(ControlUnreachableError, match="Control was lost"):
                next(world.fetcher._messages(end, b"asked", until_s=math.inf))

    run(tmp_path, scenario)


def test_a_grant_that_is_given_up_as_the_loop_ends_is_none(tmp_path: Path) -> None:
    class Control:
        """Gives no grant, and is cancelled over it."""

        def __init__(self) -> None:
            self.asked: asyncio.Future[asyncio.Task[object] | None] = asyncio.get_running_loop().create_future()

        async def blob_grant(self, digest: Digest) -> str:
            self.asked.set_result(asyncio.current_task())
            await asyncio.Event().wait()
            return digest

    async def scenario(world: Far) -> None:
        control = Control()
        world.fetcher.grants_from(cast("ControlLink", control))
        asking = asyncio.create_task(asyncio.to_thread(world.fetcher._grant, world.digest("a")))
        asked = await control.asked
        assert asked is not None
        asked.cancel()
        with pytest.raises(ControlUnreachableError, match="no grant"):
            await asking

    run(tmp_path, scenario)
