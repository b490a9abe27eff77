"""What goes wrong in an engine behind HTTP is found by the worker's watchdog, and outlived."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.messages import Failed, ModuleSpec
from hotset.core.versions import FileEntry, Manifest, VersionRecord
from hotset.engines.fake.adapter_folder import WEIGHTS, read_unchecked
from hotset.engines.fake.answers import Answerer
from hotset.engines.fake.server.launch import served_settings
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.served.engine import ServedEngine
from hotset.registry.approval import sign_approval
from hotset.registry.digests import version_digest
from tests.support.adapters import Tensors, make_adapter, tiny_base_shape
from tests.support.agent_world import REVIEWER, TENANT, AgentWorld, finish


class HttpWorld(AgentWorld):
    """Versions in PEFT's layout; those of ``n`` hold a NaN that nothing checked for."""

    def _publish(self, name: str) -> VersionRecord:
        edit = plant_nan if name == "n" else None
        folder = make_adapter(self.root / name, tiny_base_shape(), rank=4, seed=ord(name), edit=edit)
        entries = []
        for path in sorted(folder.iterdir()):
            digest, size = self.blobs.ingest(path)
            entries.append(FileEntry(name=path.name, digest=digest, size_bytes=size))
        files = tuple(entries)
        module = ModuleSpec(module="m", rank=4, alpha=8.0, scaling=2.0, key_a="a", key_b="b", file=WEIGHTS)
        record = VersionRecord(
            owner=TENANT,
            name=name,
            number=1,
            base=self.base.digest,
            digest=version_digest(self.base.digest, files),
            manifest=Manifest(files=files, modules=(module,), rank_max=4),
        )
        return msgspec.structs.replace(record, approval=sign_approval(REVIEWER, record))

    def expected(self, name: str | None) -> str:
        mark = "" if name is None else read_unchecked(str(self.root / name)).mark
        return Answerer(self.base.digest).text(mark, "user: hi", 5)


def plant_nan(tensors: Tensors) -> None:
    first = next(iter(tensors.values()))
    first[0, 0] = np.nan


def play(root: Path, story: Callable[[HttpWorld], Awaitable[None]], **settings: float) -> None:
    world = HttpWorld(root, names="abn", **settings)  # pyright: ignore[reportArgumentType]
    options = ServerOptions(base=world.base.digest, max_loras=2, speed=50.0, faults=True)
    world.make_engine = lambda _: ServedEngine(served_settings(options))  # pyright: ignore[reportAttributeAccessIssue]

    async def body() -> None:
        async with asyncio.timeout(100), world.running():
            await story(world)

    asyncio.run(body())


async def next_engine(world: HttpWorld, number: int) -> None:
    while len(world.engines) < number or not world.agent.is_ready():
        await asyncio.sleep(0.02)


def test_nan_in_one_version_ends_its_engine_and_nobody_else_is_blamed(tmp_path: Path) -> None:
    async def story(world: HttpWorld) -> None:
        assert await world.answer("a") == world.expected("a")
        with pytest.raises((EngineUnavailableError, LoadFailedError)):
            await world.answer("n")
        await next_engine(world, 2)
        (suspicion,) = world.agent.suspicions()
        assert (suspicion.version, suspicion.flaw) == (world.engine_name("n"), "version_not_finite")
        for name in ("a", "b", None):
            assert await world.answer(name) == world.expected(name)
        with pytest.raises(LoadFailedError, match="held back"):
            await world.answer("n")

    play(tmp_path, story)


def test_an_engine_that_hangs_is_ended_and_another_one_serves(tmp_path: Path) -> None:
    async def story(world: HttpWorld) -> None:
        assert await world.answer("a") == world.expected("a")
        engine = world.engines[0]
        assert isinstance(engine, ServedEngine)
        transport = httpx.AsyncHTTPTransport(uds=str(engine.socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as door:
            await door.post("/fault", json={"kind": "hang"})
        (*_, last) = await finish(await world.submit("a"))
        assert isinstance(last, Failed)
        await next_engine(world, 2)
        assert await world.answer("b") == world.expected("b")

    play(tmp_path, story, stall_timeout_s=4.0)  # longer than a busy machine may pause
