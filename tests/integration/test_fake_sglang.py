"""The fake engine answers over HTTP as SGLang does, by the sources of SGLang 0.5.23."""

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest

from tests.integration.test_fake_vllm import expected, play
from tests.support.served_fakes import Fake, adapter_folders

OPTIONS = {"habits": "sglang", "max_loras": 3, "plugin": True}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return adapter_folders(tmp_path_factory.mktemp("adapters"), "a", "b", "c", "d")


async def load(fake: Fake, name: str, path: Path, **more: object) -> httpx.Response:
    return await fake.post("/load_lora_adapter", lora_name=name, lora_path=str(path), **more)


async def unload(fake: Fake, name: str) -> httpx.Response:
    return await fake.post("/unload_lora_adapter", lora_name=name)


def test_a_load_tells_all_that_is_loaded_and_every_failure_is_a_400(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        answer = await load(fake, "a", folders["a"])
        assert (answer.status_code, answer.json()) == (
            200,
            {"success": True, "error_message": None, "loaded_adapters": {"a": str(folders["a"])}},
        )
        failures = [
            await load(fake, "a", folders["b"]),
            await load(fake, "x", folders["a"].parent / "nowhere"),
            await unload(fake, "nobody"),
        ]
        for failure in failures:
            assert failure.status_code == 400
            assert failure.json()["success"] is False
            assert failure.json()["error_message"]

    play(scenario, **OPTIONS)


def test_an_adapter_is_named_behind_a_colon_or_by_its_own_field(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await load(fake, "a", folders["a"])
        assert await fake.chat("base:a") == expected(folders["a"])
        assert await fake.chat("base", lora_path="a") == expected(folders["a"])
        assert await fake.chat("base") == expected(None)
        assert (await fake.ask("base:never")).status_code == 400

    play(scenario, **OPTIONS)


def test_an_unload_waits_for_the_last_request_and_takes_the_name_at_once(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await load(fake, "a", folders["a"])
        async with fake.streaming("base:a", max_tokens=200) as stream:
            first = await stream.next()
            unloading = asyncio.create_task(unload(fake, "a"))
            while len((await fake.client.get("/v1/models")).json()["data"]) > 1:
                await asyncio.sleep(0.005)
            assert not unloading.done()
            assert f"{first}{await stream.rest()}" == expected(folders["a"], 200)
        assert (await unloading).json()["loaded_adapters"] == {}
        assert await fake.held() == {}

    play(scenario, **{**OPTIONS, "speed": 2.0})


def test_what_was_unloaded_comes_back_with_its_next_request(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await load(fake, "a", folders["a"])
        await unload(fake, "a")
        assert await fake.chat("base:a") == expected(folders["a"])
        await fake.post("/hotset/v1/remove", name="a")
        assert (await fake.ask("base:a")).status_code == 400, "the plugin removes it for good"

    play(scenario, **OPTIONS)


def test_a_load_beyond_the_host_copies_takes_the_one_used_least_lately(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await load(fake, name, folders[name])
        await fake.chat("base:a")
        assert set((await load(fake, "d", folders["d"])).json()["loaded_adapters"]) == {"a", "c", "d"}

    play(scenario, **OPTIONS)


def test_pins_hold_and_one_slot_stays_free_of_them(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await load(fake, "a", folders["a"], pinned=True)
        await load(fake, "b", folders["b"], pinned=True)
        assert "pinned" in (await load(fake, "c", folders["c"], pinned=True)).json()["error_message"]
        await load(fake, "c", folders["c"])
        assert set((await load(fake, "d", folders["d"])).json()["loaded_adapters"]) == {"a", "b", "d"}

    play(scenario, **OPTIONS)


def test_one_long_request_holds_up_every_load(folders: dict[str, Path]) -> None:
    """The lock that all loads need is held while the victim's requests end."""

    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await load(fake, name, folders[name])
        async with fake.streaming("base:a", max_tokens=2000) as stream:
            await stream.next()
            await fake.chat("base:b")
            await fake.chat("base:c")
            loads = [asyncio.create_task(load(fake, name, folders[name])) for name in ("d", "a")]
            await asyncio.sleep(0.05)
            assert not any(loading.done() for loading in loads)
        assert (await asyncio.gather(*loads))[0].status_code == 200

    play(scenario, **{**OPTIONS, "speed": 2.0})


def test_pool_metrics_count_slots_and_say_nothing_of_adapters(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await load(fake, "a", folders["a"])
        text = (await fake.client.get("/metrics")).text
        assert "sglang:lora_pool_slots_used 1" in text
        assert "sglang:lora_pool_slots_total 3" in text

    play(scenario, **OPTIONS)


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_host_copy_goes_into_its_slot_beside_the_steps_where_that_is_asked_for(
    folders: dict[str, Path], tmp_path: Path, *, overlaps: bool
) -> None:
    """`enable_lora_overlap_loading`: 64 MiB take 74 ms to copy and a step 10, at the profile's own speed."""
    heavy = tmp_path / "heavy"
    shutil.copytree(folders["a"], heavy)
    with (heavy / "adapter_model.safetensors").open("ab") as weights:
        weights.write(b"\0" * (64 << 20))

    async def scenario(fake: Fake) -> None:
        await load(fake, "heavy", heavy)
        for name in "bc":
            await load(fake, name, folders[name])
            await fake.chat(f"base:{name}", max_tokens=1)
        async with fake.streaming("base", max_tokens=100) as stream:
            await stream.next()
            assert (await fake.held())["heavy"] == "host", "the base took its slot"
            asking = asyncio.create_task(fake.chat("base:heavy", max_tokens=1))
            num_beside = 0
            while not asking.done() and await stream.next():
                num_beside += 1
        assert (num_beside >= 5) == overlaps, num_beside
        await asking

    options = {**OPTIONS, "max_loras": 3, "max_cpu_loras": 4, "enable_lora_overlap_loading": overlaps}
    play(scenario, **{**options, "speed": 0.2})
