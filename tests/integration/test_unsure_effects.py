"""Calls to an engine that fail though it lives: no slot is left in a state that nothing leads out of."""

import asyncio
from pathlib import Path

import pytest

from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad, LoadReport
from hotset.engines.hosted import HostedEngine
from hotset.engines.wire import EngineSpec
from tests.support.agent_world import AgentWorld, push_out


class UnsureEngine(HostedEngine):
    """Does what it is asked, and does not always get to say so."""

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec, start_timeout_s=60)
        #: Answers still to be lost on their way.
        self.num_lost = {"load": 0, "unload": 0}

    def _drop_answer(self, call: str) -> None:
        if self.num_lost[call]:
            self.num_lost[call] -= 1
            raise EngineUnavailableError("the engine's plugin fails: 500")

    async def load(self, load: AdapterLoad) -> LoadReport:
        report = await super().load(load)
        self._drop_answer("load")
        return report

    async def unload(self, name: EngineName) -> None:
        await super().unload(name)
        self._drop_answer("unload")


def run_unsure(root: Path, call: str) -> list[str]:
    """Ask for more versions than slots while two answers to such a call are lost; return all answers."""
    world = AgentWorld(root, load_timeout_s=60)
    world.make_engine = UnsureEngine

    async def story() -> list[str]:
        async with asyncio.timeout(100), world.running():
            (engine,) = world.engines
            assert isinstance(engine, UnsureEngine)
            await world.answer("c")
            await world.answer("d")
            engine.num_lost[call] = 2
            answers = [await world.answer(name) for name in "abcd"]
            assert engine.num_lost[call] == 0
            assert len(world.engines) == 1
            await push_out(world, "d")
            return answers

    return asyncio.run(story())


@pytest.mark.parametrize("call", ["load", "unload"])
def test_a_call_whose_answer_is_lost_leaves_no_slot_stuck(tmp_path: Path, call: str) -> None:
    assert len(set(run_unsure(tmp_path, call))) == 4
