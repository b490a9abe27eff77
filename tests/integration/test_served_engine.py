"""An engine behind HTTP that is not as it should be, or does not go on as it should."""

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from hotset.core.errors import EngineUnavailableError, LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import AdapterLoad, Delta, Failed, Generate, Message, Sampling, Started
from hotset.engines.fake.server.launch import served_settings
from hotset.engines.fake.server.options import MODULE, ServerOptions, command_of
from hotset.engines.promised_files import digest_of
from hotset.engines.served.engine import ServedEngine
from tests.support.served_fakes import adapter_folders, engine_names

A, B, C = engine_names("abc")
OPTIONS = ServerOptions(max_loras=2, speed=20.0, faults=True)
#: Of whose answers a long one takes half a minute: it runs still, however long a busy machine pauses.
SLOWLY = replace(OPTIONS, speed=0.5)


def load_of(name: EngineName, folder: Path) -> AdapterLoad:
    files = {path.name: digest_of(path.read_bytes()) for path in folder.iterdir()}
    return AdapterLoad(engine_name=name, folder=str(folder), files=files, modules=())


def ask(request_id: str, name: EngineName | None = None, **fields: Any) -> Generate:
    sampling = Sampling(max_tokens=fields.pop("max_tokens", 4), logprobs=fields.pop("logprobs", None))
    chat = (Message(role="user", content="hello there"),)
    wanted = {"messages": chat, "cache_salt": "", **fields}
    return Generate(request_id=RequestId(request_id), engine_name=name, sampling=sampling, **wanted)


@contextlib.asynccontextmanager
async def started(options: ServerOptions = OPTIONS) -> AsyncIterator[ServedEngine]:
    engine = ServedEngine(served_settings(options))
    async with asyncio.timeout(100):
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop()


def side_door(engine: ServedEngine) -> httpx.AsyncClient:
    """Speak to the engine past its owner."""
    transport = httpx.AsyncHTTPTransport(uds=str(engine.socket))
    return httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"plugin": False}, "without Hotset's plugin"),
        ({"plugin": True, "max_cpu_loras": 5}, "3 host copies beyond its slots"),
        ({"plugin": True, "max_loras": 3}, "3 usable slots instead of 2"),
        ({"plugin": True, "base": "other"}, "another base version"),
    ],
)
def test_an_engine_to_be_refused_is_refused_with_the_command_that_starts_it_right(
    wrong: dict[str, Any], words: str
) -> None:
    def own_command(socket: Path) -> tuple[str, ...]:
        return command_of(replace(OPTIONS, uds=str(socket), ends_with_stdin=True, **wrong))

    async def scenario() -> None:
        engine = ServedEngine(replace(served_settings(OPTIONS), own_command_of=own_command))
        with pytest.raises(EngineUnavailableError) as refused:
            await engine.start()
        assert words in refused.value.message
        command = shlex.split(refused.value.message.partition("start it with: ")[2])
        assert command[1:3] == ["-m", MODULE]
        assert "--plugin" in command
        assert engine.pid is not None
        assert not psutil.pid_exists(engine.pid)
        assert not engine.socket.parent.exists()

    asyncio.run(scenario())


def test_an_engine_that_does_not_start_is_quoted() -> None:
    def own_command(_: Path) -> tuple[str, ...]:
        return ("sh", "-c", "echo no such device >&2; exit 3")

    async def scenario() -> None:
        engine = ServedEngine(replace(served_settings(OPTIONS), own_command_of=own_command))
        with pytest.raises(EngineUnavailableError, match="no such device"):
            await engine.start()

    asyncio.run(scenario())


def test_the_socket_is_in_a_folder_that_nobody_else_may_enter() -> None:
    async def scenario() -> None:
        async with started() as engine:
            assert engine.socket.parent.stat().st_mode & 0o777 == 0o700

    asyncio.run(scenario())


def test_what_the_engine_holds_is_asked_and_never_remembered(tmp_path: Path) -> None:
    folders = adapter_folders(tmp_path, "a", "b")

    async def scenario() -> None:
        async with started() as engine, side_door(engine) as door:
            first = await engine.load(load_of(A, folders["a"]))
            checksum = await engine.checksum(A)
            await door.post("/v1/unload_lora_adapter", json={"lora_name": A})
            assert (await engine.inventory()).loaded == (A,), "its name is gone, but its slot is not free"
            again = await engine.load(load_of(A, folders["a"]))
            assert again.slot_bytes == first.slot_bytes > 0
            assert (await engine.inventory()).loaded == (A,)
            assert await engine.checksum(A) == checksum
            await door.post("/v1/load_lora_adapter", json={"lora_name": B, "lora_path": str(folders["b"])})
            assert set((await engine.inventory()).loaded) == {A, B}
            assert await engine.checksum(B) != checksum
            await engine.unload(B)
            with pytest.raises(LoadFailedError):
                await engine.checksum(B)

    asyncio.run(scenario())


def test_what_the_engine_refuses_is_a_failed_load_in_its_words_and_leaves_nothing(tmp_path: Path) -> None:
    """vLLM says 500 to a rank that is too large, as to a fault of its own."""
    folders = adapter_folders(tmp_path, "a")

    async def scenario() -> None:
        async with started(replace(OPTIONS, max_lora_rank=2)) as engine:
            with pytest.raises(LoadFailedError, match="greater than max_lora_rank 2"):
                await engine.load(load_of(A, folders["a"]))
            assert (await engine.inventory()).loaded == ()

    asyncio.run(scenario())


def test_several_prompts_and_log_probabilities_come_through() -> None:
    async def scenario() -> None:
        async with started() as engine:
            stream = engine.generate(ask("r", messages=None, prompts=("one two", "three"), n=2, logprobs=2))
            events = []
            while ready := await stream.events():
                events += ready
            assert events[0] == Started(RequestId("r"), 3)
            deltas = [event for event in events if isinstance(event, Delta)]
            assert {delta.index for delta in deltas} == {0, 1, 2, 3}
            for delta in deltas:
                assert delta.logprobs is not None
                assert delta.logprobs[0].token == delta.text
                assert len(delta.logprobs[0].top) == 2

    asyncio.run(scenario())


def test_a_prompt_that_is_too_long_is_the_callers_fault() -> None:
    async def scenario() -> None:
        async with started() as engine:
            (failed,) = await engine.generate(ask("r", max_tokens=9000)).events()
            assert isinstance(failed, Failed)
            assert failed.code == "context_length_exceeded"

    asyncio.run(scenario())


def test_a_version_in_use_is_not_unloaded_not_even_before_the_engine_heard_of_the_request(tmp_path: Path) -> None:
    """I3."""
    folders = adapter_folders(tmp_path, "a")

    async def scenario() -> None:
        async with started(SLOWLY) as engine:
            await engine.load(load_of(A, folders["a"]))
            stream = engine.generate(ask("r", A, max_tokens=1500))
            for _ in range(2):
                with pytest.raises(LoadFailedError, match="running request"):
                    await engine.unload(A)
                await stream.events()
            await stream.abort()
            await engine.unload(A)
            early = engine.generate(ask("s"))
            await early.abort()
            assert (await engine.inventory()).running == ()

    asyncio.run(scenario())


def test_an_abort_that_is_given_up_ends_the_request_all_the_same() -> None:
    async def scenario() -> None:
        async with started(SLOWLY) as engine:
            stream = engine.generate(ask("r", max_tokens=1500))
            await stream.events()
            aborting = asyncio.create_task(stream.abort())
            await asyncio.sleep(0)
            aborting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await aborting
            async with asyncio.timeout(60):
                while (await engine.inventory()).running:
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_an_engine_killed_in_a_step_fails_what_runs_and_says_so() -> None:
    async def scenario() -> None:
        async with started(SLOWLY) as engine, side_door(engine) as door:
            stream = engine.generate(ask("r", max_tokens=1500))
            await stream.events()
            await door.post("/fault", json={"kind": "crash"})
            events = []
            while ready := await stream.events():
                events += ready
            assert isinstance(events[-1], Failed)
            assert events[-1].code == "engine_failed"
            assert "gone" in await engine.wait_gone()
            with pytest.raises(EngineUnavailableError):
                await engine.inventory()

    asyncio.run(scenario())


def test_a_load_that_is_given_up_is_found_by_an_inventory(tmp_path: Path) -> None:
    folders = adapter_folders(tmp_path, "a")

    async def scenario() -> None:
        async with started(replace(OPTIONS, speed=0.0006)) as engine:  # a load of nothing takes 5 s
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.8):
                    await engine.load(load_of(A, folders["a"]))
            assert (await engine.inventory()).loaded == ()
            while not (await engine.inventory()).loaded:
                await asyncio.sleep(0.01)
            assert (await engine.load(load_of(A, folders["a"]))).stall_seconds == 0.0

    asyncio.run(scenario())


def test_an_engine_ends_with_its_owner() -> None:
    """However the owner ended: its end of the pipe closes."""

    async def scenario() -> None:
        read_end, write_end = os.pipe()
        command = command_of(replace(OPTIONS, port=0, ends_with_stdin=True))
        child = await asyncio.create_subprocess_exec(*command, stdin=read_end)
        os.close(read_end)
        os.close(write_end)
        async with asyncio.timeout(60):
            assert await child.wait() == 0

    asyncio.run(scenario())
