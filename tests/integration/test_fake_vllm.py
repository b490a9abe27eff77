"""The fake engine answers over HTTP as vLLM does; statuses and texts as they were seen on vLLM 0.32.0's CPU build."""

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hotset.core.ids import Digest
from hotset.engines.fake.adapter_folder import read_unchecked
from hotset.engines.fake.answers import Answerer
from tests.support.adapters import make_adapter, tiny_base_shape
from tests.support.served_fakes import Fake, adapter_folders, fake_server

IN_PLACE_HINT = "If you want to load the adapter in place, set 'load_inplace' to True."

Scenario = Callable[[Fake], Awaitable[None]]


def play(scenario: Scenario, **options: Any) -> None:
    async def body() -> None:
        async with asyncio.timeout(100), fake_server(**options) as fake:
            await scenario(fake)

    asyncio.run(body())


def error_of(answer: Any) -> tuple[int, str, str]:
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error["type"], error["message"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return adapter_folders(tmp_path_factory.mktemp("adapters"), "a", "b", "c")


def expected(folder: Path | None, num_tokens: int = 4) -> str:
    mark = "" if folder is None else read_unchecked(str(folder)).mark
    return Answerer(Digest("base")).text(mark, "user: hello there", num_tokens)


def test_a_load_is_told_in_words_and_a_second_one_refused(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        answer = await fake.load("a", folders["a"])
        assert (answer.status_code, answer.text) == (200, "Success: LoRA adapter 'a' added successfully.")
        for path in (folders["a"], folders["b"]):
            assert error_of(await fake.load("a", path)) == (
                400,
                "InvalidUserInput",
                "The lora adapter 'a' has already been loaded. " + IN_PLACE_HINT,
            )

    play(scenario)


def test_what_is_not_there_is_a_404_and_what_is_wrong_with_it_a_500(tmp_path: Path) -> None:
    """A caller's fault that looks like a server's: only the path's own absence is told apart."""
    shape = tiny_base_shape()
    bad = {
        "rank": make_adapter(tmp_path / "rank", shape, rank=32),
        "dora": make_adapter(tmp_path / "dora", shape, config={"use_dora": True}),
        "module": make_adapter(tmp_path / "module", shape, config={"target_modules": ["lm_head"]}),
        "corrupt": make_adapter(tmp_path / "corrupt", shape),
        "empty": make_adapter(tmp_path / "empty", shape),
    }
    (bad["corrupt"] / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    (bad["empty"] / "adapter_model.safetensors").unlink()
    words = {
        "rank": "LoRA rank 32 is greater than max_lora_rank 16.",
        "dora": "vLLM does not yet support DoRA.",
        "module": "but received ['lm_head']",
        "corrupt": "Error while deserializing header: header too large",
        "empty": "<path> doesn't contain tensors",
    }

    async def scenario(fake: Fake) -> None:
        missing = await fake.load("missing", tmp_path / "nowhere")
        assert error_of(missing) == (
            404,
            "NotFoundError",
            "Loading lora missing failed: No adapter found for <path>",
        )
        for name, path in bad.items():
            status, kind, message = error_of(await fake.load(name, path))
            assert (status, kind) == (500, "InternalServerError")
            assert message.startswith("Call to add_lora method failed: Worker failed with error '")
            assert words[name] in message
        assert len((await fake.client.get("/v1/models")).json()["data"]) == 1

    play(scenario)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"lora_name": "a"}, "body.lora_path", "'type': 'missing', 'loc': 'body.lora_path'"),
        ({"lora_name": 1, "lora_path": "x"}, "body.lora_name", "'loc': 'body.lora_name'"),
        ({"lora_name": "", "lora_path": "x"}, None, "must be provided"),
        ({"lora_name": "base", "lora_path": "x"}, None, "conflicts with a served base model"),
    ],
)
def test_a_load_that_makes_no_sense_is_a_400(body: dict[str, object], param: str | None, words: str) -> None:
    async def scenario(fake: Fake) -> None:
        answer = await fake.post("/v1/load_lora_adapter", **body)
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]
        assert answer.json()["error"]["param"] == param
        not_json = await fake.client.post("/v1/load_lora_adapter", content=json.dumps(body))
        assert not_json.status_code == 400

    play(scenario)


def test_unload_forgets_the_name_and_leaves_the_weights_in_their_slot(folders: dict[str, Path]) -> None:
    """Hazard 4: memory is freed when others take its place, and a live idle adapter may have to go before it."""

    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        await fake.load("b", folders["b"])
        answer = await fake.unload("a")
        assert (answer.status_code, answer.text) == (200, "Success: LoRA adapter 'a' removed successfully.")
        assert (await fake.ask("a")).status_code == 404
        assert await fake.held() == {"a": "slot", "b": "slot"}
        assert error_of(await fake.unload("a"))[:2] == (404, "NotFoundError")
        assert (await fake.unload("")).status_code == 400

    play(scenario, plugin=True)


def test_an_idle_adapter_goes_before_one_that_was_unloaded_but_used_later(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        await fake.load("b", folders["b"])
        await fake.chat("b")
        await fake.unload("b")
        await fake.load("c", folders["c"])
        assert await fake.held() == {"a": "nowhere", "b": "slot", "c": "slot"}

    play(scenario, plugin=True)


def test_a_stream_outlives_the_unload_of_its_adapter(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        async with fake.streaming("a", max_tokens=8) as stream:
            first = await stream.next()
            await fake.unload("a")
            assert (await fake.ask("a")).status_code == 404
            await fake.load("a", folders["b"])
            assert await fake.chat("a") == expected(folders["b"])
            assert f"{first}{await stream.rest()}" == expected(folders["a"], 8)
            assert stream.finish_reason == "length"

    play(scenario, speed=10.0)


def test_a_load_in_place_changes_a_stream_in_the_middle(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        async with fake.streaming("a", max_tokens=200) as stream:
            first = await stream.next()
            assert (await fake.load("a", folders["b"], load_inplace=True)).status_code == 200
            text = f"{first}{await stream.rest()}"
        assert text.startswith(expected(folders["a"], 1))
        assert text.endswith(expected(folders["b"], 200)[-10:])
        assert text not in (expected(folders["a"], 200), expected(folders["b"], 200))

    play(scenario, speed=10.0)


def test_a_load_in_place_is_read_from_disk_again_for_every_step(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(folders["a"], folder)

    async def scenario(fake: Fake) -> None:
        await fake.load("a", folder, load_inplace=True)
        assert await fake.chat("a") == expected(folders["a"])
        shutil.copytree(folders["b"], folder, dirs_exist_ok=True)
        assert expected(folders["b"])[-5:] in await fake.chat("a")

    play(scenario)


def test_base_rows_beside_adapters_get_the_last_slots_unless_the_plugin_repairs_them(folders: dict[str, Path]) -> None:
    """Hazard 1, of the CPU build alone."""

    async def beside_two(fake: Fake) -> str:
        for name in "ab":
            await fake.load(name, folders[name])
        async with fake.streaming("a", max_tokens=200) as a, fake.streaming("b", max_tokens=200) as b:
            beside = [await a.next() or "", await b.next() or ""]
            base = await fake.chat("base")
            texts = [beside[0] + await a.rest(), beside[1] + await b.rest()]
        assert texts == [expected(folders[name], 200) for name in "ab"]
        assert await fake.chat("base") == expected(None), "alone it is the base"
        return base

    async def astray(fake: Fake) -> None:
        assert await beside_two(fake) == expected(folders["b"])

    async def repaired(fake: Fake) -> None:
        assert await beside_two(fake) == expected(None)

    play(astray, speed=10.0)
    play(repaired, speed=10.0, plugin=True)


def test_more_adapters_than_slots_wait_for_each_other(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await fake.load(name, folders[name])
        assert sorted((await fake.held()).values()) == ["host", "slot", "slot"]
        texts = await asyncio.gather(*(fake.chat(name) for name in "abcabc"))
        assert texts == [expected(folders[name]) for name in "abcabc"]

    play(scenario, plugin=True, max_cpu_loras=3)


def test_a_load_stops_everything_that_runs(folders: dict[str, Path], tmp_path: Path) -> None:
    heavy = tmp_path / "heavy"
    shutil.copytree(folders["a"], heavy)
    with (heavy / "adapter_model.safetensors").open("ab") as weights:
        weights.write(b"\0" * (64 << 20))

    async def scenario(fake: Fake) -> None:
        async with fake.streaming("base", max_tokens=2000) as stream:
            await stream.next()
            loading = asyncio.create_task(fake.load("a", heavy))
            gaps = []
            last_s = time.monotonic()
            while not loading.done() and await stream.next() is not None:
                gaps.append(time.monotonic() - last_s)
                last_s = time.monotonic()
            await loading
        assert max(gaps) > 0.2, "64 MiB take 0.22 s"

    play(scenario, speed=1.0)


def test_unknown_models_are_told_the_bases_name() -> None:
    async def scenario(fake: Fake) -> None:
        answer = await fake.ask("nobody")
        message = "The model `nobody` does not exist. Valid aliases: base."
        assert error_of(answer) == (404, "NotFoundError", message)
        assert answer.json()["error"]["param"] == "model"

    play(scenario)


def test_models_are_what_is_registered_with_their_paths(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        for name in "abc":
            await fake.load(name, folders[name])
        base, *cards = (await fake.client.get("/v1/models")).json()["data"]
        assert (base["id"], base["parent"], base["max_model_len"]) == ("base", None, 2048)
        assert [(card["id"], card["root"], card["parent"]) for card in cards] == [
            (name, str(folders[name]), "base") for name in "abc"
        ]
        assert cards[0]["max_model_len"] is None

    play(scenario)


def test_side_doors_load_unload_and_chat(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        answer = await fake.post("/adapters", name="sm", src=str(folders["a"]))
        assert (answer.status_code, answer.text) == (200, "Adapter sm registered")
        messages = [{"role": "user", "content": "hello there"}]
        chat = await fake.post("/invocations", model="sm", messages=messages, max_tokens=4)
        assert chat.json()["choices"][0]["message"]["content"] == expected(folders["a"])
        gone = await fake.client.delete("/adapters/sm")
        assert (gone.status_code, gone.text) == (200, "Adapter sm unregistered")

    play(scenario)


def test_without_runtime_updating_there_is_no_way_to_load(folders: dict[str, Path]) -> None:
    async def scenario(fake: Fake) -> None:
        for answer in (await fake.load("a", folders["a"]), await fake.post("/adapters", name="a", src="x")):
            assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
        assert (await fake.client.get("/hotset/v1/state")).status_code == 404

    play(scenario, runtime_lora_updating=False)


def test_the_only_metric_of_adapters_grows_with_every_set_of_them(folders: dict[str, Path]) -> None:
    """Hazard 5."""

    async def scenario(fake: Fake) -> None:
        await fake.load("a", folders["a"])
        await fake.load("b", folders["b"])
        await fake.chat("a")
        await fake.chat("b")
        await asyncio.gather(fake.chat("a", max_tokens=200), fake.chat("b", max_tokens=200))
        lines = [line for line in (await fake.client.get("/metrics")).text.splitlines() if not line.startswith("#")]
        labels = [line.partition("{")[2].partition("}")[0] for line in lines]
        for names in ("a", "b", "a,b"):
            assert f'max_lora="2",running_lora_adapters="{names}",waiting_lora_adapters="{names}"' in labels

    play(scenario)


def test_a_chat_streams_roles_usage_and_log_probabilities_as_asked() -> None:
    async def scenario(fake: Fake) -> None:
        usage = {"include_usage": True, "continuous_usage_stats": True}
        answer = await fake.ask("base", max_tokens=2, stream=True, stream_options=usage, logprobs=True, top_logprobs=2)
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        role, first, last, total = (json.loads(line) for line in lines)
        assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert [chunk["usage"]["completion_tokens"] for chunk in (role, first, last)] == [0, 1, 2]
        assert total["choices"] == []
        assert total["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        (token,) = first["choices"][0]["logprobs"]["content"]
        assert token["token"] == first["choices"][0]["delta"]["content"]
        assert [top["logprob"] for top in token["top_logprobs"]] == [token["logprob"], token["logprob"] - 1]
        assert last["choices"][0]["finish_reason"] == "length"

    play(scenario)


def test_completions_answer_every_prompt_and_sample() -> None:
    async def scenario(fake: Fake) -> None:
        answer = await fake.post(
            "/v1/completions", model="base", prompt=["one two", "three"], n=2, max_tokens=3, logprobs=1
        )
        body = answer.json()
        texts = [Answerer(Digest("base")).text("", prompt, 3) for prompt in ("one two", "three")]
        assert [choice["text"] for choice in body["choices"]] == [texts[0], texts[0], texts[1], texts[1]]
        assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
        assert "".join(body["choices"][0]["logprobs"]["tokens"]) == texts[0]

    play(scenario)


def test_a_prompt_that_is_too_long_is_a_400() -> None:
    async def scenario(fake: Fake) -> None:
        status, kind, message = error_of(await fake.ask("base", max_tokens=5000))
        assert (status, kind) == (400, "BadRequestError")
        assert "maximum context length" in message

    play(scenario)


def test_a_client_that_leaves_takes_its_request_with_it() -> None:
    async def scenario(fake: Fake) -> None:
        async with fake.streaming("base", max_tokens=1000) as stream:
            await stream.next()
            assert len((await fake.state())["running"]) == 1
        whole = asyncio.create_task(fake.ask("base", max_tokens=1000))
        while not (await fake.state())["running"]:
            await asyncio.sleep(0.005)
        whole.cancel()
        while (state := await fake.state())["running"]:
            await asyncio.sleep(0.005)
        assert state["kv_blocks_used"] == 0

    play(scenario, plugin=True, speed=5.0)
