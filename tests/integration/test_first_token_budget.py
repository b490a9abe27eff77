"""The first-token budget over real sockets: how it reaches the agent, and what a refusal means to a stock client."""

import asyncio
import json
import time
from pathlib import Path

import openai
import pytest
import uvloop

from hotset.gateway.settings import GatewaySettings
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import ask, chat_request, close, connect, eventually, raw_request, read_answer, read_head
from tests.support.scripted_agent import COLD_RETRY_AFTER_MS, check_nothing_left
from tests.support.snapshots import token_of

COMMENT, DONE = b": waiting\n\n", b"data: [DONE]\n\n"
OWN = "Hotset-First-Token-Budget-Ms"


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def stock_client(world: PlaneWorld) -> openai.AsyncOpenAI:
    """The official client as its documentation makes it: it retries twice by itself."""
    return openai.AsyncOpenAI(base_url=world.base_url + "/v1", api_key=token_of("acme"))


ASKED = [
    ({OWN: "100000"}, 100_000, None),
    ({"Prefer": "wait=200"}, 200_000, "wait=200"),
    ({"Prefer": "wait=200", OWN: "100000"}, 100_000, None),
    ({"Prefer": "respond-async, wait=300"}, 300_000, "wait=300"),
    ({"Prefer": "respond-async"}, None, None),
    ({"Prefer": "wait=soon, return=minimal"}, None, None),
    ({}, None, None),
]


@pytest.mark.parametrize(("headers", "budget_ms", "applied"), ASKED)
def test_what_is_left_of_the_budget_reaches_the_agent(
    tmp_path: Path, headers: dict[str, str], budget_ms: int | None, applied: str | None
) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            answer = await ask(world.port, chat_request("hi", headers=headers))
            assert answer.status == 200
            assert answer.headers.get("preference-applied") == applied
            left_ms = world.agent.works[0].budget_ms
            if budget_ms is None:
                assert left_ms is None
            else:
                assert left_ms is not None
                assert budget_ms - 60_000 <= left_ms <= budget_ms
            entry = world.entries()[0]
            assert (entry.budget_ms, entry.retry_after_ms) == (budget_ms, None)

    uvloop.run(story())


def test_the_plane_has_a_budget_for_requests_that_name_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=GatewaySettings(first_token_budget_ms=30_000)).served() as world:
            answer = await ask(world.port, chat_request("hi", stream=True, headers={"Prefer": "wait=2"}))
            assert answer.status == 200
            assert "preference-applied" not in answer.headers
            await ask(world.port, chat_request("hi", headers={OWN: "600000"}))
            default_ms, asked_ms = (work.budget_ms for work in world.agent.works)
            assert default_ms is not None
            assert asked_ms is not None
            assert 2_000 < default_ms <= 30_000
            assert 540_000 <= asked_ms <= 600_000
            assert [entry.budget_ms for entry in world.entries()] == [600_000, 30_000]

    uvloop.run(story())


def test_the_budget_runs_from_the_whole_body(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            request = chat_request("hi", headers={OWN: "60000"})
            _, writer = await connect(world.port)
            writer.write(request[:-5])
            await asyncio.sleep(1.2)
            assert not world.agent.works
            whole_s = time.monotonic()
            writer.write(request[-5:])
            await eventually(lambda: world.agent.works)
            taken_ms = (time.monotonic() - whole_s) * 1000
            left_ms = world.agent.works[0].budget_ms
            assert left_ms is not None
            assert left_ms > 60_000 - taken_ms - 1, "the body's own time was counted"
            await close(writer)

    uvloop.run(story())


@pytest.mark.parametrize(
    ("headers", "stream", "param"),
    [
        ({OWN: "0"}, False, OWN.lower()),
        ({OWN: "soon"}, True, OWN.lower()),
        ({OWN: "600001", "Prefer": "wait=1"}, False, OWN.lower()),
        ({"Prefer": "respond-async"}, True, "prefer"),
    ],
)
def test_what_can_not_be_meant_is_a_400_that_names_the_header(
    tmp_path: Path, headers: dict[str, str], param: str, *, stream: bool
) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            answer = await ask(world.port, chat_request("hi", stream=stream, headers=headers))
            assert (answer.status, answer.code) == (400, "invalid_request")
            assert answer.json()["error"]["param"] == param  # type: ignore[index]
            assert "preference-applied" not in answer.headers
            assert not world.agent.works
            assert world.entries()[0].outcome == "refused"

    uvloop.run(story())


def test_two_budgets_are_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            head, _, body = chat_request("hi", headers={OWN: "900"}).partition(b"\r\n\r\n")
            request = head + f"\r\n{OWN}: 900\r\n\r\n".encode() + body
            assert (await ask(world.port, request)).code == "invalid_request"

    uvloop.run(story())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("stream", ["false", "true"])
def test_a_cold_adapter_is_a_429_with_the_time_to_come_back(tmp_path: Path, path: str, stream: str) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            asked = '"messages":[{"role":"user","content":"cold"}]' if "chat" in path else '"prompt":"cold"'
            body = f'{{"model":"support",{asked},"stream":{stream}}}'.encode()
            answer = await ask(world.port, raw_request(body, path=path, token=token_of("acme"), headers={OWN: "40000"}))
            assert (answer.status, answer.code) == (429, "adapter_cold")
            assert answer.headers["content-type"] == "application/problem+json"
            assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("3", "2500")
            assert answer.headers["x-should-retry"] == "false"
            assert answer.json()["retry_after_ms"] == COLD_RETRY_AFTER_MS
            entry = world.entries()[0]
            assert (entry.outcome, entry.code, entry.lane) == ("refused", "adapter_cold", "")
            assert (entry.budget_ms, entry.retry_after_ms) == (40_000, COLD_RETRY_AFTER_MS)
            assert b'hotset_requests_refused_total{reason="adapter_cold"} 1.0' in world.metrics.text()
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_a_refusal_names_the_preference_that_led_to_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            answer = await ask(world.port, chat_request("cold", headers={"Prefer": "wait=100"}))
            assert (answer.code, answer.headers["preference-applied"]) == ("adapter_cold", "wait=100")

    uvloop.run(story())


def test_a_stream_that_waits_is_silent_before_its_keepalive(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=GatewaySettings(keepalive_after_s=60.0)).served() as world:
            refused, accepted = await connect(world.port), await connect(world.port)
            refused[1].write(chat_request("hold cold", stream=True, headers={OWN: "60000"}))
            accepted[1].write(chat_request("hold", stream=True, headers={OWN: "60000"}))
            await eventually(lambda: world.agent.num_held == 2)
            for reader, _ in (refused, accepted):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.25)
            world.agent.release.set()
            answer = await read_answer(refused[0])
            assert (answer.status, answer.code) == (429, "adapter_cold")
            status, headers = await read_head(accepted[0])
            assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            for _, writer in (refused, accepted):
                await close(writer)

    uvloop.run(story())


KEPT_ALIVE = GatewaySettings(keepalive_after_s=0.1, keepalive_every_s=0.1)


def test_a_stream_that_waits_longer_is_kept_alive_and_goes_on_as_any_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=KEPT_ALIVE).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("hold load", stream=True, headers={OWN: "30000"}))
            status, headers = await read_head(reader)
            assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert "hotset-lane" not in headers, "nobody knows it yet"
            assert headers["hotset-route"] == "support@2"
            await reader.readuntil(COMMENT)
            await reader.readuntil(COMMENT)
            assert world.agent.num_held == 1
            world.agent.release.set()
            rest = await reader.readuntil(DONE)
            assert b"answer of acme" in rest
            await close(writer)
            await eventually(world.entries)
            assert (world.entries()[0].outcome, world.entries()[0].lane) == ("completed", "loading")

    uvloop.run(story())


def test_a_budget_missed_while_the_stream_is_kept_alive_ends_with_an_event(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=KEPT_ALIVE).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("hold cold", stream=True, headers={OWN: "30000"}))
            await reader.readuntil(COMMENT)
            world.agent.release.set()
            told = await last_error(reader)
            assert (told["code"], told["retry_after_ms"]) == ("first_token_budget_exceeded", COLD_RETRY_AFTER_MS)
            await close(writer)
            await eventually(world.entries)
            entry = world.entries()[0]
            assert (entry.outcome, entry.code) == ("refused", "first_token_budget_exceeded")

    uvloop.run(story())


@pytest.mark.parametrize("settings", [GatewaySettings(keepalive_after_s=60.0), KEPT_ALIVE])
def test_an_accepted_stream_without_its_first_token_in_the_budget_ends_and_runs_no_more(
    tmp_path: Path, settings: GatewaySettings
) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, settings=settings).served() as world:
            reader, writer = await connect(world.port)
            writer.write(chat_request("silent", stream=True, headers={OWN: "3000"}))
            if settings is KEPT_ALIVE:
                told = await last_error(reader)
                assert (told["code"], told["retry_after_ms"]) == ("first_token_budget_exceeded", 1000)
            else:
                answer = await read_answer(reader)
                assert (answer.status, answer.code) == (429, "first_token_budget_exceeded")
                assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("1", "false")
            await close(writer)
            await eventually(lambda: world.agent.num_aborted == 1)
            check_nothing_left(world.agent)
            entry = world.entries()[0]
            assert (entry.outcome, entry.code, entry.retry_after_ms) == ("failed", "first_token_budget_exceeded", 1000)

    uvloop.run(story())


def test_the_budget_ends_with_the_first_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            writers = []
            for stream in (True, False):
                _, writer = await connect(world.port)
                writer.write(chat_request("stall", stream=stream, headers={OWN: "3000"}))
                writers.append(writer)
            await asyncio.sleep(3.5)
            assert len(world.agent.open_tickets) == 2
            for writer in writers:
                await close(writer)
            await eventually(lambda: not world.agent.open_tickets)

    uvloop.run(story())


async def last_error(reader: asyncio.StreamReader) -> dict[str, object]:
    """The error that a stream ends with."""
    whole = await reader.readuntil(b"0\r\n\r\n")
    assert DONE not in whole
    line = [line for line in whole.splitlines() if line.startswith(b"data: ")][-1]
    return json.loads(line[6:])["error"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stock_client_fails_at_once_where_the_adapter_is_cold(tmp_path: Path, *, stream: bool) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, stock_client(world) as client:
            assert client.max_retries > 0
            await client.chat.completions.create(model="support", messages=messages("hi"))  # connects
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(
                    model="support", messages=messages("cold"), stream=stream, extra_headers={OWN: "30000"}
                )
            assert len(world.agent.works) == 2, "it slept through the time to come back and tried again"
            assert caught.value.code == "adapter_cold"
            assert caught.value.response.json()["retry_after_ms"] == COLD_RETRY_AFTER_MS

    uvloop.run(story())


def test_a_stock_client_waits_for_a_slot_no_longer_than_its_budget(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, stock_client(world) as client:
            for headers, prompt, tries in (
                ({OWN: "30000"}, "full=20", 3),
                ({OWN: "300"}, "full=3000", 1),
                ({}, "full=6000", 1),
                ({}, "full=20", 3),
            ):
                world.agent.works.clear()
                with pytest.raises(openai.RateLimitError) as caught:
                    await client.chat.completions.create(
                        model="support", messages=messages(prompt), extra_headers=headers
                    )
                assert (caught.value.code, len(world.agent.works)) == ("slots_full", tries)

    uvloop.run(story())


def test_lines_of_an_older_log_are_still_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            await ask(world.port, chat_request("hi"))
            line = world.entries()[0] and world.log.path.read_bytes()
            old = line.replace(b',"budget_ms":null,"retry_after_ms":null', b"")
            assert old != line
            with world.log.path.open("ab") as file:
                file.write(old)
            assert [entry.budget_ms for entry in world.entries()] == [None, None]

    uvloop.run(story())


def test_what_the_agent_expects_is_shown_beside_what_came(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            began_s = time.monotonic()
            answer = await ask(world.port, chat_request("wait=1500 load", headers={OWN: "40000"}))
            most_s = 1.501 + time.monotonic() - began_s
            assert answer.status == 200
            stages = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
            assert 1500 <= float(stages["expected"]) <= most_s * 1000
            entry = world.entries()[0]
            assert entry.expected_s is not None
            assert 1.5 <= entry.expected_s <= most_s
            assert entry.lane == "loading"
            plain = await ask(world.port, chat_request("hi"))
            assert "expected" not in plain.headers["server-timing"]
            assert world.entries()[0].expected_s is None

    uvloop.run(story())


def test_a_wait_that_will_miss_its_budget_ends_at_once_by_the_agents_own_estimate(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            began_s = time.monotonic()
            answer = await ask(world.port, chat_request("wait=60000 hold", headers={OWN: "30000"}))
            assert time.monotonic() - began_s < 25, "it does not wait for the budget's end"
            assert (answer.status, answer.code) == (429, "adapter_cold")
            assert answer.json()["retry_after_ms"] == 60_000
            assert answer.headers["x-should-retry"] == "false"
            assert world.agent.num_held == 0
            entry = world.entries()[0]
            assert (entry.outcome, entry.retry_after_ms) == ("refused", 60_000)
            check_nothing_left(world.agent)
            waits = await ask(world.port, chat_request("wait=60000 load"))
            assert waits.status == 200, "without a budget nobody is refused for time"

    uvloop.run(story())
