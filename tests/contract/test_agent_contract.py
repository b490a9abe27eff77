"""What every agent keeps, in this process or at the other end of a link: `core.ports.Agent` and `Ticket`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hotset.core.errors import (
    AdapterColdError,
    EngineUnavailableError,
    HotsetError,
    LoadFailedError,
    ModelNotFoundError,
    ShuttingDownError,
    SlotsFullError,
    StaleRouteError,
)
from hotset.core.ids import EngineName, KeyId, RequestId, Route, engine_name
from hotset.core.messages import Delta, Failed, Finished, Generate, Message, Sampling, Started
from hotset.core.ports import Agent, Ticket, Waiting, Work
from tests.support.agent_world import TENANT, AgentWorld, finish, forged, text_of
from tests.support.remote_world import RemoteWorld

KINDS = ("local", "remote")
#: Tokens of an answer that no pause of the machine lets come to its end; this engine brings some 50,000 a second.
ENDLESS = 10_000_000


@dataclass
class Place:
    """One agent as its callers see it, and the world behind it."""

    agent: Agent
    world: AgentWorld
    num_requests: int = 0

    def work(self, route: Route, *, max_tokens: int = 5, budget_ms: int | None = None, epoch: int = 0) -> Work:
        self.num_requests += 1
        request = RequestId(f"contract-{self.num_requests}")
        generate = Generate(
            request_id=request,
            engine_name=engine_name(route),
            cache_salt="",
            sampling=Sampling(max_tokens=max_tokens),
            messages=(Message(role="user", content="hi"),),
        )
        return Work(request, TENANT, KeyId("k"), route, generate, budget_ms, epoch or self.world.epoch)

    async def submit(self, name: str | None, **more: int) -> Ticket:
        return await self.agent.submit(self.work(self.world.route(name), **more))

    async def nothing_left(self) -> None:
        """Return once the agent holds no lease and the engine runs nothing."""
        async with asyncio.timeout(40):
            while self.world.agent.num_leases() or (await self.world.engines[-1].inventory()).running:
                await asyncio.sleep(0.01)


Scenario = Callable[[Place], Awaitable[None]]


@asynccontextmanager
async def place(kind: str, world: AgentWorld) -> AsyncIterator[Place]:
    async with world.running():
        if kind == "local":
            yield Place(world.agent, world)
        else:
            async with RemoteWorld(world).linked() as remote:
                yield Place(remote.remote, world)


def run(kind: str, root: Path, scenario: Scenario, **settings: int | float | str) -> None:
    async def body() -> None:
        world = AgentWorld(root, **settings)  # pyright: ignore[reportArgumentType]
        world.is_as_read, world.kind = False, "instant_stepwise"
        async with asyncio.timeout(100), place(kind, world) as found:
            await scenario(found)

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_comes_whole_in_order_and_from_its_own_route(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        ticket = await found.submit("a", max_tokens=7)
        events = await finish(ticket)
        assert isinstance(events[0], Started)
        assert [type(event) for event in events[1:]] == [Delta] * 7 + [Finished]
        name: EngineName = found.world.engine_name("a")
        assert text_of(events).split()[0].startswith(name[3:11])
        assert ticket.lane == "loading"
        assert ticket.load_seconds > 0
        assert await ticket.events() == []
        again = await found.submit("a")
        assert again.lane == "hot"
        base = text_of(await finish(await found.submit(None)))
        assert base.startswith("base.0")
        await finish(again)
        await found.nothing_left()

    run(kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_many_requests_at_once_each_get_their_own_answer(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        async def ask(name: str) -> None:
            text = text_of(await finish(await found.submit(name, max_tokens=40)))
            assert len(text.split()) == 40
            assert {word.partition(".")[0] for word in text.split()} == {found.world.engine_name(name)[3:11]}

        await asyncio.gather(*(ask("abcd"[number % 4]) for number in range(40)))
        await found.nothing_left()

    run(kind, tmp_path, scenario, num_slots=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_is_aborted_leaves_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        ticket = await found.submit("a", max_tokens=ENDLESS)
        await ticket.events()
        await ticket.abort()
        assert found.world.agent.num_leases() == 0
        await ticket.abort()
        await found.nothing_left()

    run(kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_cancelled_while_it_waits_leaves_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        holders = [await found.submit(name, max_tokens=ENDLESS) for name in "ab"]
        waiting = asyncio.create_task(found.submit("c"))
        async with asyncio.timeout(40):
            while found.world.agent.num_leases() < 3:
                await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(40):
            while found.world.agent.num_leases() > 2:
                await asyncio.sleep(0.01)
        for holder in holders:
            await holder.abort()
        await found.nothing_left()

    run(kind, tmp_path, scenario, num_slots=2, load_timeout_s=60.0)


async def refusal(found: Place, work: Work) -> HotsetError:
    with pytest.raises(HotsetError) as caught:
        await found.agent.submit(work)
    await found.nothing_left()
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_are_the_leaves_that_the_port_names(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        world = found.world
        unknown = Route(world.base.digest, world.route("a").adapter, 7, world.route("a").digest)
        assert type(await refusal(found, found.work(unknown))) is ModelNotFoundError
        other_base = Route(world.records["a"].digest)
        assert type(await refusal(found, found.work(other_base))) is EngineUnavailableError
        world.records["b"] = forged(world.records["b"], world.records["a"])
        world.publish_snapshot("a", "b")
        assert type(await refusal(found, found.work(world.route("b")))) is LoadFailedError

    run(kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_that_a_newer_snapshot_withdrew_is_a_stale_route(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        late = found.work(found.world.route("a"))
        found.world.publish_snapshot("b")
        error = await refusal(found, late)
        assert isinstance(error, StaleRouteError)
        assert error.epoch == found.world.epoch

    run(kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_a_newer_snapshot_waits_for_it(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        found.world.publish_snapshot("b")
        early = found.work(found.world.route("a"), epoch=found.world.epoch + 1)
        asking = asyncio.create_task(found.agent.submit(early))
        await asyncio.sleep(0.05)
        assert not asking.done()
        found.world.publish_snapshot("a", "b")
        assert len(text_of(await finish(await asking)).split()) == 5

    run(kind, tmp_path, scenario, snapshot_wait_s=60.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_does_not_come_is_not_waited_for_without_end(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        ahead = found.work(Route(found.world.base.digest, found.world.route("a").adapter, 9), epoch=99)
        assert type(await refusal(found, ahead)) is EngineUnavailableError

    run(kind, tmp_path, scenario, snapshot_wait_s=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cold_request_is_told_when_to_come_back(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        holders = [await found.submit(name, max_tokens=ENDLESS) for name in "ab"]
        with pytest.raises(AdapterColdError) as caught:
            await found.submit("c", budget_ms=50)
        assert caught.value.retry_after_ms >= 1
        with pytest.raises(SlotsFullError):
            await found.submit("d")
        for holder in holders:
            await holder.abort()
        await found.nothing_left()

    run(kind, tmp_path, scenario, num_slots=2, load_timeout_s=5.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_word_on_work_that_waits_is_that_it_does_and_for_how_long(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        told: list[Waiting] = []

        async def ask(name: str, budget_ms: int | None = None) -> Ticket:
            return await found.agent.submit(found.work(found.world.route(name), budget_ms=budget_ms), told.append)

        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await finish(await ask("a"))
        assert told == [Waiting("loading", None)], "nothing was seen yet to tell by"
        await finish(await ask("a"))
        taken_s = loop.time() - began_s
        assert len(told) == 1, "what is dispatched as it comes does not wait"
        await finish(await ask("b"))
        assert told[1].lane == "loading"
        assert told[1].expected_s is not None
        assert 0 < told[1].expected_s < taken_s + 1.0, "it is told by what those before it took"
        running = await found.submit("a", max_tokens=ENDLESS)
        behind = asyncio.create_task(ask("a"))
        async with asyncio.timeout(40):
            while len(told) < 3:
                await asyncio.sleep(0.01)
        assert told[2].lane == "hot"
        assert told[2].expected_s is not None
        assert not behind.done(), "it waits for the one place there is"
        await running.abort()
        await finish(await behind)
        with pytest.raises(AdapterColdError):
            await ask("c", budget_ms=1)
        assert len(told) == 3, "what is refused as it comes does not wait either"
        await found.nothing_left()
        errors = found.world.metrics.text().decode()
        assert "hotset_first_token_prediction_error_seconds_count" in errors

    run(kind, tmp_path, scenario, engine_sequences_max=1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_dies_ends_each_request_once(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        ticket = await found.submit("a", max_tokens=ENDLESS)
        await ticket.events()
        await found.world.engines[-1].stop()
        events = await finish(ticket)
        assert isinstance(events[-1], Failed)
        assert await ticket.events() == []
        assert found.world.agent.num_leases() == 0

    run(kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_ends_takes_no_more_and_finishes_what_runs(kind: str, tmp_path: Path) -> None:
    async def scenario(found: Place) -> None:
        assert found.agent.is_ready()
        ticket = await found.submit("a", max_tokens=2_000)
        stopping = asyncio.create_task(found.world.agent.stop())
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDownError):
            await found.submit("a")
        assert isinstance((await finish(ticket))[-1], Finished)
        await stopping

    run(kind, tmp_path, scenario)
