"""What every engine behind the port promises, run on those without a model and on the embedded one alike."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from hotset.core.clock import SystemClock
from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    Delta,
    EngineEvent,
    Failed,
    Finished,
    Generate,
    Message,
    Sampling,
    Score,
    Started,
    StepFacts,
)
from hotset.engines.fake.engine import FakeSettings
from hotset.engines.fake.inline import InlineEngine
from hotset.engines.fake.profiles import ProfileName
from hotset.engines.fake.server.launch import served_settings
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.hosted import HostedEngine
from hotset.engines.port import Engine
from hotset.engines.served.engine import ServedEngine
from hotset.engines.wire import EngineSpec
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.folder import open_artifact
from tests.support.adapters import make_adapter, tiny_base_shape, tiny_base_version
from tests.support.bases import make_tiny_base

A, B, C = (EngineName("hs-" + letter * 32) for letter in "abc")
Kind = Literal["instant", "instant_stepwise", "embedded", "fake", "fake_inline", "fake_served"]
#: Kind and, for the fake engine, profile.
KINDS: tuple[tuple[Kind, ProfileName], ...] = (
    ("instant", "plain"),
    ("instant_stepwise", "plain"),
    ("embedded", "plain"),
    ("fake", "plain"),
    ("fake", "vllm"),
    ("fake", "sglang"),
    ("fake_inline", "plain"),
    ("fake_served", "vllm"),
    ("fake_served", "sglang"),
)


Scenario = Callable[["World", Engine], Awaitable[None]]


class World:
    """A tiny base, three adapters, and engines over them."""

    def __init__(self, root: Path, kind: Kind, profile: ProfileName = "plain") -> None:
        self.kind: Kind = kind
        self.profile: ProfileName = profile
        self.base_folder = root / "base"
        make_tiny_base(self.base_folder)
        self.base = tiny_base_version()
        self.loads: dict[EngineName, AdapterLoad] = {}
        for seed, name in enumerate((A, B, C)):
            folder = root / name
            make_adapter(folder, tiny_base_shape(), seed=seed, rank=4 + 4 * seed)
            with open_artifact(folder) as artifact:
                verified = verify(artifact, self.base, VerifyPolicy(rank_max=16, dtype="float32"))
            self.loads[name] = AdapterLoad(
                engine_name=name,
                folder=str(folder),
                files={entry.name: entry.digest for entry in verified.manifest.files},
                modules=verified.manifest.modules,
            )

    def make_engine(self) -> Engine:
        if self.kind == "fake_inline":
            settings = FakeSettings(base=self.base, profile=self.profile, speed=50.0, num_slots=2, rank_max=16)
            return InlineEngine(settings, SystemClock())
        if self.kind == "fake_served":
            return ServedEngine(served_settings(self._server_options()))
        spec = EngineSpec(
            kind=self.kind,
            base=self.base,
            base_folder=str(self.base_folder),
            num_slots=2,
            rank_max=16,
            dtype="float32",
            kv_bytes_max=8 << 20,
            num_threads=1,
            profile=self.profile,
            speed=50.0,
        )
        return HostedEngine(spec, start_timeout_s=180)

    def _server_options(self) -> ServerOptions:
        habits = "sglang" if self.profile == "sglang" else "vllm"
        max_loras = 3 if habits == "sglang" else 2
        return ServerOptions(habits=habits, base=self.base.digest, max_loras=max_loras, speed=50.0)


class Served:
    """One engine for many scenarios: starting one costs seconds. Each leaves it as it found it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._runner = asyncio.Runner()
        self.engine = world.make_engine()
        facts = self._runner.run(self.engine.start())
        assert (facts.base, facts.num_slots) == (world.base.digest, 2)

    def run(self, scenario: Scenario) -> None:
        async def body() -> None:
            async with asyncio.timeout(120):
                await scenario(self.world, self.engine)
                for name in (A, B, C):
                    await self.engine.unload(name)
                inventory = await self.engine.inventory()
            assert (inventory.loaded, inventory.running, inventory.kv_blocks_used) == ((), (), 0)

        self._runner.run(body())

    def stop(self) -> None:
        self._runner.run(self.engine.stop())
        self._runner.close()


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), *request.param)


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    served = Served(world)
    yield served
    served.stop()


def run_alone(world: World, scenario: Scenario) -> None:
    """Run a scenario that ruins its engine."""

    async def body() -> None:
        async with asyncio.timeout(200):
            engine = world.make_engine()
            await engine.start()
            try:
                await scenario(world, engine)
            finally:
                await engine.stop()

    asyncio.run(body())


def ask(name: EngineName | None, number: int = 0, *, max_tokens: int = 8) -> Generate:
    return Generate(
        request_id=RequestId(f"r-{name}-{number}"),
        engine_name=name,
        cache_salt="",
        sampling=Sampling(temperature=0.0, max_tokens=max_tokens, ignore_eos=True),
        messages=(Message(role="user", content="hello there"),),
    )


async def collect(engine: Engine, request: Generate) -> list[EngineEvent]:
    stream = engine.generate(request)
    events: list[EngineEvent] = []
    while ready := await stream.events():
        events.extend(ready)
    return events


def text_of(events: list[EngineEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def test_it_tells_what_its_steps_computed(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        steps: list[StepFacts] = []
        await engine.load(world.loads[A])
        engine.watch_steps(steps.append)
        await asyncio.gather(collect(engine, ask(None)), collect(engine, ask(A)))
        engine.watch_steps(lambda _: None)
        assert all(step.seconds >= 0 for step in steps)
        assert sum(step.num_decodes for step in steps) >= 2
        assert {step.num_adapters for step in steps} <= {0, 1}
        assert 1 in {step.num_adapters for step in steps}

    served.run(scenario)


def test_an_answer_starts_flows_and_finishes(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        events = await collect(engine, ask(None))
        assert isinstance(events[0], Started)
        assert events[0].prompt_tokens > 0
        assert isinstance(events[-1], Finished)
        deltas = [event for event in events if isinstance(event, Delta)]
        assert len(deltas) == len(events) - 2
        assert sum(delta.num_tokens for delta in deltas) == events[-1].completion_tokens == 8
        assert deltas[-1].finish_reason == "length"

    served.run(scenario)


def test_each_version_answers_as_itself_alone_and_together(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        for name in (A, B):
            report = await engine.load(world.loads[name])
            assert report.num_modules == len(world.loads[name].modules)
        alone = {name: text_of(await collect(engine, ask(name))) for name in (None, A, B)}
        assert len(set(alone.values())) == 3
        requests = [ask(name, number) for number in range(1, 4) for name in (A, None, B)]
        answers = await asyncio.gather(*(collect(engine, request) for request in requests))
        for request, events in zip(requests, answers, strict=True):
            assert text_of(events) == alone[request.engine_name]

    served.run(scenario)


def test_a_name_that_is_not_loaded_fails_and_never_falls_back(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        events = await collect(engine, ask(A))
        assert len(events) == 1
        assert isinstance(events[0], Failed)
        assert events[0].code == "load_failed"

    served.run(scenario)


def test_loads_are_bounded_idempotent_and_undone_by_unload(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        await engine.load(world.loads[A])
        await engine.load(world.loads[A])
        await engine.load(world.loads[B])
        with pytest.raises(LoadFailedError):
            await engine.load(world.loads[C])
        assert set((await engine.inventory()).loaded) == {A, B}
        await engine.unload(A)
        await engine.unload(A)
        await engine.load(world.loads[C])
        assert set((await engine.inventory()).loaded) == {B, C}
        assert isinstance((await collect(engine, ask(A)))[0], Failed)

    served.run(scenario)


def test_a_reload_answers_as_the_first_load_did(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        await engine.load(world.loads[A])
        first = text_of(await collect(engine, ask(A)))
        await engine.unload(A)
        await engine.load(world.loads[C])
        await engine.load(world.loads[B])
        await engine.unload(C)
        await engine.load(world.loads[A])
        assert text_of(await collect(engine, ask(A, 1))) == first

    served.run(scenario)


def test_a_watcher_is_told_every_event_though_nobody_reads(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        told: list[EngineEvent] = []
        stream = engine.generate(ask(None))
        stream.watch(told.extend)
        while not told or not isinstance(told[-1], Finished):
            await asyncio.sleep(0.001)
        assert await stream.events() == told
        assert await stream.events() == []

    served.run(scenario)


def test_a_late_watcher_is_told_what_came_before_it(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        told: list[EngineEvent] = []
        stream = engine.generate(ask(None))
        while (await engine.inventory()).running:
            await asyncio.sleep(0.001)
        stream.watch(told.extend)
        assert isinstance(told[0], Started)
        assert await stream.events() == told

    served.run(scenario)


def test_an_abort_is_confirmed_and_leaves_nothing(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        await engine.load(world.loads[A])
        stream = engine.generate(ask(A, max_tokens=400))
        assert isinstance((await stream.events())[0], Started)
        await stream.abort()
        await stream.abort()
        inventory = await engine.inventory()
        assert (inventory.running, inventory.kv_blocks_used) == ((), 0)
        await engine.unload(A)
        await engine.abort(RequestId("nobody"))

    served.run(scenario)


def test_scores_are_one_log_probability_a_token_after_the_first(served: Served) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        await engine.load(world.loads[A])
        texts = ("one two three", "four five")
        base = await engine.score(Score(engine_name=None, texts=texts))
        adapted = await engine.score(Score(engine_name=A, texts=texts))
        assert [len(s) for s in base] == [len(s) for s in adapted]
        assert all(value <= 0 for scores in (*base, *adapted) for value in scores)
        assert base != adapted
        with pytest.raises(LoadFailedError):
            await engine.score(Score(engine_name=B, texts=texts))

    served.run(scenario)


def test_a_killed_engine_fails_what_runs_and_says_so(world: World) -> None:
    async def scenario(world: World, engine: Engine) -> None:
        stream = engine.generate(ask(None, max_tokens=900))
        events = await stream.events()
        await engine.stop()
        assert "gone" in await engine.wait_gone()
        while ready := await stream.events():
            events.extend(ready)
        assert isinstance(events[-1], Failed | Finished)
        assert isinstance((await collect(engine, ask(None, 2)))[0], Failed)
        with pytest.raises(EngineUnavailableError):
            await engine.inventory()

    run_alone(world, scenario)


@pytest.mark.parametrize("kind", ["embedded", "fake", "fake_inline", "fake_served"])
def test_an_engine_that_reads_files_loads_only_the_bytes_it_was_promised(tmp_path: Path, kind: Kind) -> None:
    """I6."""

    async def scenario(world: World, engine: Engine) -> None:
        load = world.loads[A]
        weights = Path(load.folder) / "adapter_model.safetensors"
        changed = bytearray(weights.read_bytes())
        changed[-1] ^= 1
        weights.write_bytes(changed)
        with pytest.raises(LoadFailedError):
            await engine.load(load)
        weights.unlink()
        with pytest.raises(LoadFailedError):
            await engine.load(load)
        await engine.load(world.loads[B])
        assert (await engine.inventory()).loaded == (B,)

    run_alone(World(tmp_path, kind), scenario)


def test_an_engine_that_can_not_start_says_why(tmp_path: Path) -> None:
    spec = EngineSpec(kind="embedded", base=tiny_base_version(), base_folder=str(tmp_path / "nowhere"))

    async def body() -> None:
        with pytest.raises(EngineUnavailableError, match="nowhere"):
            await HostedEngine(spec, start_timeout_s=180).start()

    asyncio.run(body())
