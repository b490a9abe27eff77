"""Clients that leave at any point, read slowly or are cut off: the work ends, the count is right, nothing is left."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from hotset.core.ports import Withdrawal
from hotset.core.snapshot import Cut
from hotset.gateway.settings import GatewaySettings
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import ask, chat_request, close, connect, eventually, read_answer, read_head
from tests.support.scripted_agent import PROMPT_TOKENS, check_nothing_left
from tests.support.snapshots import ACME, GLOBEX, adapter_route, three_tenants


async def ends_as_cancelled(world: PlaneWorld) -> None:
    await eventually(lambda: world.app.num_in_flight == 0)
    check_nothing_left(world.agent)
    entry = world.entries()[0]
    assert (entry.outcome, entry.code) == ("cancelled", "")


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_while_waiting_for_a_slot(tmp_path: Path, *, stream: bool) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            _, writer = await connect(world.port)
            writer.write(chat_request("hold", stream=stream))
            await eventually(lambda: world.agent.num_held == 1)
            await close(writer)
            await ends_as_cancelled(world)
            assert world.entries()[0].lane == ""

    uvloop.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_before_the_first_token(tmp_path: Path, *, stream: bool) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            _, writer = await connect(world.port)
            writer.write(chat_request("silent", stream=stream))
            await eventually(lambda: world.agent.num_silent == 1)
            await close(writer)
            await ends_as_cancelled(world)
            entry = world.entries()[0]
            assert (entry.prompt_tokens, entry.completion_tokens) == (PROMPT_TOKENS, 0)
            assert world.agent.num_aborted == 1

    uvloop.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_in_the_middle(tmp_path: Path, *, stream: bool) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("stall", stream=stream))
            if stream:
                await reader.readuntil(b"answer of acme")
            else:
                await eventually(lambda: world.agent.num_silent == 1)
            await close(writer)
            await ends_as_cancelled(world)
            assert world.entries()[0].completion_tokens == 1
            assert world.agent.num_aborted == 1

    uvloop.run(story())


def test_leaving_in_the_middle_of_the_body(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            _, writer = await connect(world.port)
            writer.write(chat_request("hi" * 1000)[:-500])
            await eventually(lambda: world.app.num_in_flight == 1)
            await close(writer)
            await ends_as_cancelled(world)
            assert world.agent.works == []

    uvloop.run(story())


def test_a_slow_reader_is_not_cut_and_what_waits_for_it_is_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("pieces=150 text=" + "x" * 50_000, stream=True))
            await eventually(lambda: len(world.agent.open_tickets) == 1)
            (ticket,) = world.agent.open_tickets.values()
            held_back = -1
            while held_back != len(ticket._batches):  # until what lies between the two is full
                held_back = len(ticket._batches)
                await asyncio.sleep(0.4)
            assert held_back > 0
            assert world.app.num_in_flight == 1
            received = (await read_answer(reader)).body
            assert received.endswith(b"data: [DONE]\n\n")
            assert received.count(b"x" * 50_000) == 150
            await eventually(lambda: world.app.num_in_flight == 0)
            assert world.entries()[0].outcome == "completed"
            await close(writer)

    uvloop.run(story())


def test_a_slow_reader_that_leaves_is_noticed(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("pieces=150 text=" + "x" * 50_000, stream=True))
            await read_head(reader)
            await asyncio.sleep(0.2)
            assert world.app.num_in_flight == 1
            writer.transport.abort()
            await ends_as_cancelled(world)

    uvloop.run(story())


def test_silence_is_filled_with_comments_and_a_late_error_is_an_event(tmp_path: Path) -> None:
    settings = GatewaySettings(keepalive_after_s=0.1, keepalive_every_s=0.1, request_timeout_s=5.0)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            answer, whole = await asyncio.gather(
                ask(world.port, chat_request("silent", stream=True)), ask(world.port, chat_request("silent"))
            )
            assert (whole.status, whole.code) == (504, "engine_timeout")
            assert answer.status == 200
            assert answer.headers["hotset-route"] == "support@2"
            assert answer.body.count(b": waiting\n\n") >= 3
            assert b'"code":"engine_timeout"' in answer.body
            assert b"[DONE]" not in answer.body
            assert b"role" not in answer.body
            await eventually(lambda: world.app.num_in_flight == 0)
            check_nothing_left(world.agent)
            assert [(entry.outcome, entry.code) for entry in world.entries()] == [("failed", "engine_timeout")] * 2

    uvloop.run(story())


def test_comments_do_not_break_a_stream_that_goes_on(tmp_path: Path) -> None:
    settings = GatewaySettings(keepalive_after_s=0.1, keepalive_every_s=0.1)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world, world.client() as client:
            world.agent.step_s = 0.25
            stream = await client.chat.completions.create(
                model="support", messages=[{"role": "user", "content": "pieces=3"}], stream=True
            )
            chunks = [chunk async for chunk in stream]
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "answer of acme/support@2 1 2"
            assert chunks[0].choices[0].delta.role == "assistant"

    uvloop.run(story())


def test_a_revoked_key_is_refused_at_once_while_its_open_stream_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("stall", stream=True))
            await reader.readuntil(b"answer of acme")
            world.app.apply(three_tenants(epoch=2, keys=("globex",)))
            assert (await ask(world.port, chat_request("hi"))).status == 401
            assert (await ask(world.port, chat_request("hi", tenant="globex", model="contracts"))).status == 200
            assert len(world.agent.open_tickets) == 1
            assert world.app.cut(Withdrawal(tenant=GLOBEX)) == 0
            assert world.app.cut(Withdrawal(tenant=ACME)) == 1
            rest = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert b'"code":"revoked"' in rest
            assert b"[DONE]" not in rest
            await eventually(lambda: world.app.num_in_flight == 0)
            check_nothing_left(world.agent)
            assert (world.entries()[0].outcome, world.entries()[0].code) == ("failed", "revoked")
            await close(writer)

    uvloop.run(story())


def test_a_snapshot_ends_what_was_cut_since_the_one_before_and_spares_what_began_under_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            world.app.apply(three_tenants(epoch=3))
            reader, writer = await connect(world.port)
            writer.write(chat_request("stall", stream=True))
            await reader.readuntil(b"answer of acme")
            old, new = Cut(3, Withdrawal(tenant=ACME)), Cut(5, Withdrawal(tenant=ACME))
            world.app.apply(replace(three_tenants(epoch=4), cuts=(old,)))
            assert world.app.num_in_flight == 1
            # Epoch 5 never came here; what was withdrawn in it was granted anew in 6.
            world.app.apply(replace(three_tenants(epoch=6), cuts=(old, new)))
            assert b'"code":"revoked"' in await reader.readuntil(b"\r\n0\r\n\r\n")
            await eventually(lambda: world.app.num_in_flight == 0)
            writer.write(chat_request("stall", stream=True))
            await reader.readuntil(b"answer of acme")
            for epoch in (6, 7):
                world.app.apply(replace(three_tenants(epoch=epoch), cuts=(old, new)))
            assert len(world.agent.open_tickets) == 1
            await close(writer)
            await eventually(lambda: world.app.num_in_flight == 0)

    uvloop.run(story())


def test_a_cut_takes_those_of_one_adapter_and_a_slow_reader_too(tmp_path: Path) -> None:
    settings = GatewaySettings(last_event_timeout_s=0.2)

    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            readers = []
            for model, prompt in (("eu/faq", "stall"), ("support", "pieces=150 text=" + "x" * 50_000)):
                reader, writer = await connect(world.port)
                writer.write(chat_request(prompt, stream=True, model=model))
                await read_head(reader)
                readers.append((reader, writer))
            await asyncio.sleep(0.2)
            assert world.app.cut(Withdrawal(adapter=adapter_route("acme", "support").adapter)) == 1
            await eventually(lambda: world.app.num_in_flight == 1)
            assert len(world.agent.open_tickets) == 1
            for _, writer in readers:
                writer.transport.abort()
            await eventually(lambda: world.app.num_in_flight == 0)

    uvloop.run(story())


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"keys": ("globex",)}, 401, "unauthenticated"),
        ({"without": ("acme", "support")}, 404, "model_not_found"),
    ],
)
def test_a_waiting_request_is_stopped_when_its_right_is_withdrawn(
    tmp_path: Path, changes: dict[str, object], status: int, code: str
) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            waiting = asyncio.create_task(ask(world.port, chat_request("hold", stream=True)))
            other = asyncio.create_task(ask(world.port, chat_request("hold", tenant="globex", model="contracts")))
            await eventually(lambda: world.agent.num_held == 2)
            world.app.apply(three_tenants(epoch=2, **changes))
            async with asyncio.timeout(60):
                answer = await waiting
            assert (answer.status, answer.code) == (status, code)
            assert world.agent.num_held == 1
            world.agent.release.set()
            assert (await other).status == 200
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_a_right_withdrawn_between_acceptance_and_the_first_byte_sends_no_byte(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            for stream in (False, True):
                world.agent.may_step.clear()
                asked = asyncio.create_task(ask(world.port, chat_request("hi", stream=stream)))
                await eventually(lambda: len(world.agent.open_tickets) == 1)
                world.app.apply(three_tenants(epoch=world.app.snapshot.epoch + 1, without=("acme", "support")))
                world.agent.may_step.set()
                answer = await asked
                assert (answer.status, answer.code) == (404, "model_not_found")
                assert b"answer of" not in answer.body
                await eventually(lambda: not world.agent.open_tickets)
                world.app.apply(three_tenants(epoch=world.app.snapshot.epoch + 1))

    uvloop.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_a_right_withdrawn_after_the_first_token_lets_the_answer_end(tmp_path: Path, *, stream: bool) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            world.agent.step_s = 0.1
            asked = asyncio.create_task(ask(world.port, chat_request("pieces=4", stream=stream)))
            await eventually(lambda: any(len(ticket._batches) <= 3 for ticket in world.agent.open_tickets.values()))
            world.app.apply(three_tenants(epoch=2, keys=()))
            answer = await asked
            assert answer.status == 200
            assert b'"code"' not in answer.body
            assert world.entries()[0].outcome == "completed"

    uvloop.run(story())


def test_a_promotion_does_not_disturb_a_waiting_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            waiting = asyncio.create_task(ask(world.port, chat_request("hold")))
            await eventually(lambda: world.agent.num_held == 1)
            world.app.apply(three_tenants(epoch=2, active=3))
            world.agent.release.set()
            answer = await waiting
            assert answer.headers["hotset-route"] == "support@2"
            assert b"support@2" in answer.body
            assert (await ask(world.port, chat_request("hi"))).headers["hotset-route"] == "support@3"

    uvloop.run(story())


def test_shutting_down_ends_what_runs_with_a_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("stall", stream=True))
            await reader.readuntil(b"answer of acme")
            world.app.begin_shutdown()
            assert (await ask(world.port, chat_request("hi"))).code == "shutting_down"
            assert world.app.stop_running() == 1
            assert b'"code":"shutting_down"' in await reader.readuntil(b"\r\n0\r\n\r\n")
            await close(writer)

    uvloop.run(story())


def test_two_requests_on_one_connection_after_a_stream(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            reader, writer = await connect(world.port)
            for _ in range(3):
                writer.write(chat_request("pieces=4", stream=True) + chat_request("pieces=2"))
                assert (await read_answer(reader)).body.endswith(b"data: [DONE]\n\n")
                assert (await read_answer(reader)).status == 200
            await close(writer)

    uvloop.run(story())
