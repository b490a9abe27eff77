"""An engine that hangs with requests in it: it is ended, its requests fail, and the next one serves."""

import asyncio
import os
import signal
from pathlib import Path

from hotset.core.messages import AdapterLoad, Failed, LoadReport
from hotset.engines.hosted import HostedEngine
from tests.support.agent_world import AgentWorld, finish, text_of

#: Longer than a busy machine may pause.
STALL_TIMEOUT_S = 4.0


def test_an_engine_that_brings_nothing_is_ended_and_started_again(tmp_path: Path) -> None:
    async def scenario(world: AgentWorld) -> None:
        ticket = await world.submit("a", max_tokens=500_000)
        await ticket.events()
        async with asyncio.timeout(60):  # an engine that hangs before would be blamed on the version
            while 'hotset_watchdog_probes_total{outcome="passed",subject="base"}' not in world.metrics.text().decode():
                await asyncio.sleep(0.01)
        pid = world.engines[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        events = await finish(ticket)
        assert isinstance(events[-1], Failed)
        assert world.agent.num_leases() == 0
        async with asyncio.timeout(60):
            while len(world.engines) < 2 or not world.agent.is_ready():
                await asyncio.sleep(0.05)
        assert len(text_of(await finish(await world.submit("a"))).split()) == 5

    async def body() -> None:
        world = AgentWorld(tmp_path, stall_timeout_s=STALL_TIMEOUT_S)
        world.is_as_read, world.kind = False, "instant_stepwise"
        async with asyncio.timeout(110), world.running():
            await scenario(world)

    asyncio.run(body())


def test_an_engine_that_works_or_rests_is_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        world = AgentWorld(tmp_path, stall_timeout_s=STALL_TIMEOUT_S)
        world.is_as_read, world.kind = False, "instant_stepwise"
        async with asyncio.timeout(110), world.running():
            ticket = await world.submit("a", max_tokens=40_000)
            assert len(text_of(await finish(ticket)).split()) == 40_000
            await asyncio.sleep(STALL_TIMEOUT_S + 1.0)
            assert await world.answer("b")
            assert len(world.engines) == 1

    asyncio.run(body())


class SlowToBegin(HostedEngine):
    """Does nothing for a moment after each load."""

    async def load(self, load: AdapterLoad) -> LoadReport:
        report = await super().load(load)
        assert self.pid is not None
        os.kill(self.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(1.0, os.kill, self.pid, signal.SIGCONT)
        return report


def test_an_engine_that_rested_has_its_time_when_several_requests_begin_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        world = AgentWorld(tmp_path, stall_timeout_s=STALL_TIMEOUT_S, watchdog_interval_s=0.0)
        world.make_engine = SlowToBegin
        async with asyncio.timeout(100), world.running():
            await asyncio.sleep(STALL_TIMEOUT_S + 1.0)
            answers = await asyncio.gather(*(world.answer("a") for _ in range(3)))
            assert all(answers)
            assert len(world.engines) == 1

    asyncio.run(body())
