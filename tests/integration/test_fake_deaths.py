"""What ends a real engine ends the fake one, over HTTP; most of it was seen on vLLM 0.32.0."""

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest

from tests.integration.test_fake_vllm import error_of, expected, play
from tests.support.served_fakes import Fake, adapter_folders

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    return adapter_folders(tmp_path, "a", "b", "c")


def test_a_folder_that_is_gone_kills_the_engine_when_its_adapter_comes_back(folders: dict[str, Path]) -> None:
    """Hazard 3."""

    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await fake.load(name, folders[name])
        shutil.rmtree(folders["a"])
        assert await fake.chat("c") == expected(folders["c"])
        async with fake.streaming("b", max_tokens=500) as bystander:
            await bystander.next()
            assert error_of(await fake.ask("a"))[::2] == (500, DEAD)
            await bystander.rest()
            assert bystander.error is not None
            assert bystander.error["message"] == DEAD
        assert (await fake.client.get("/health")).status_code == 503
        assert error_of(await fake.ask("base"))[::2] == (500, DEAD)
        assert "FileNotFoundError" in await fake.serving, "and its process ends"

    play(scenario, speed=10.0)


def test_one_more_adapter_than_pins_leave_room_for_kills_the_engine(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await fake.load(name, folders[name])
        for name in "bc":
            await fake.chat(name)
            await fake.post("/fault", kind="pin", adapter=name)
        assert (await fake.ask("a")).status_code == 500
        assert (await fake.client.get("/health")).status_code == 503
        assert "pinned" in await fake.serving

    play(scenario, faults=True, max_cpu_loras=3)


def test_one_adapter_with_nan_empties_everybodys_answers_until_a_restart(folders: dict[str, Path]) -> None:
    """Hazard 2."""

    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        await fake.load("b", folders["b"])
        await fake.post("/fault", kind="nan", adapter="a")
        assert await fake.chat("b") == expected(folders["b"]), "loaded, it harms nobody yet"
        await fake.chat("a")
        await fake.unload("a")
        assert [await fake.chat(name) for name in ("b", "base")] == ["", ""]

    play(scenario, faults=True)


def test_an_engine_that_hangs_says_that_it_is_well() -> None:
    async def scenario(fake: Fake) -> None:
        await fake.post("/fault", kind="hang")
        asking = asyncio.create_task(fake.ask("base", max_tokens=1))
        await asyncio.sleep(0.2)
        assert not asking.done()
        assert (await fake.client.get("/health")).status_code == 200
        asking.cancel()

    play(scenario, faults=True)


def test_faults_are_taken_on_demand_alone() -> None:
    async def scenario(fake: Fake) -> None:
        assert (await fake.post("/fault", kind="hang")).status_code == 404

    async def wrong(fake: Fake) -> None:
        assert (await fake.post("/fault", kind="nan", adapter="nobody")).status_code == 404
        answer: httpx.Response = await fake.post("/fault", kind="flood")
        assert answer.status_code == 400

    play(scenario)
    play(wrong, faults=True)
