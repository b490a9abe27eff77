"""A tenant who tries everything reaches its own adapters and nothing else, and learns nothing of the others."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from hotset.core.ids import engine_name
from hotset.engines.settings import EngineSettings
from hotset.telemetry.logs import JsonLines
from tests.support.hostile import (
    HOSTILE_FIELDS,
    HOSTILE_HEADERS,
    MISSING,
    HostileTarget,
    chat_body,
    check_keeps_secrets,
    check_written_nothing,
    every_way_to_name,
    hostile_names,
    normalised,
)
from tests.support.live_server import live_server
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import ask, close, connect, raw_request, read_answer
from tests.support.snapshots import BASE, adapter_route, token_of

Describe = Callable[[Path], AbstractAsyncContextManager[HostileTarget]]
WRITTEN_LOG = "server.log"


@asynccontextmanager
async def scripted_plane(folder: Path) -> AsyncIterator[HostileTarget]:
    """The tenant plane alone, over a scripted agent."""
    routes = {
        name: adapter_route(*name.split("/")) for name in ("globex/contracts", "initech/tps-reports", "acme/support")
    }
    own = routes.pop("acme/support")
    foreign = (
        text
        for name, route in routes.items()
        for text in (name.split("/")[1], name, str(engine_name(route)), str(route.digest))
    )
    async with PlaneWorld(folder).served() as world:

        def written() -> list[str]:
            world.log.flush()
            return [world.log.path.read_text(), (folder / WRITTEN_LOG).read_text(), world.metrics.text().decode()]

        yield HostileTarget(
            port=world.port,
            token=token_of("acme"),
            own_model="support",
            own_adapter="acme/support",
            own_numbers=(1, 2),
            foreign_names=tuple(foreign),
            internal_names=(str(engine_name(own)), str(own.digest), str(BASE)),
            secrets=("globex", "initech", "contracts", "tps-reports", "hs-", str(folder)),
            written=written,
        )


@asynccontextmanager
async def whole_server(folder: Path) -> AsyncIterator[HostileTarget]:
    """A server as `hotset serve` runs it: real store, real agent, an engine process."""
    adapters = {"acme": ("support",), "globex": ("contracts",), "initech": ("tps-reports",)}
    async with live_server(folder, adapters, EngineSettings(kind="instant")) as live:
        server = live.server
        snapshot = server.tenant_app.snapshot
        by_owner = {record.owner: record for record in snapshot.versions.values()}
        own = by_owner.pop("acme")
        foreign = (
            text
            for record in by_owner.values()
            for text in (record.name, str(record.ref.adapter), str(engine_name(record.route)), str(record.digest))
        )

        def written() -> list[str]:
            server.request_log.flush()
            log = server.request_log.path.read_text()
            return [log, (folder / WRITTEN_LOG).read_text(), server.metrics.text().decode()]

        yield HostileTarget(
            port=live.port,
            token=live.tokens["acme"],
            own_model="support",
            own_adapter="acme/support",
            own_numbers=(1,),
            foreign_names=tuple(foreign),
            internal_names=(str(engine_name(own.route)), str(own.digest), str(own.base)),
            secrets=("globex", "initech", "contracts", "tps-reports", "hs-", str(folder)),
            written=written,
        )


@pytest.fixture(scope="module", params=[scripted_plane, whole_server], ids=["scripted", "whole"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileTarget]:
    """A tenant plane served by another thread's event loop."""
    describe: Describe = request.param
    folder = tmp_path_factory.mktemp("hostile")
    handler = logging.FileHandler(folder / WRITTEN_LOG, delay=True)
    with ThreadPoolExecutor(1) as pool:
        serving = Serving(describe, folder)
        ended = pool.submit(lambda: uvloop.run(serving.run()))
        try:
            described = serving.described.result(timeout=120)
            # From here on: what starting wrote is the operator's own.
            handler.setFormatter(JsonLines())
            handler.stream = handler._open()
            logging.getLogger("hotset").addHandler(handler)
            yield described
        finally:
            logging.getLogger("hotset").removeHandler(handler)
            handler.close()
            serving.stop()
            ended.result(timeout=60)


class Serving:
    """A target that is served until it is told to stop."""

    def __init__(self, describe: Describe, folder: Path) -> None:
        self._describe = describe
        self._folder = folder
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.described: Future[HostileTarget] = Future()

    async def run(self) -> None:
        """Serve."""
        self._loop = asyncio.get_running_loop()
        try:
            async with self._describe(self._folder) as target:
                self.described.set_result(target)
                await self._stop.wait()
        except BaseException as error:
            if not self.described.done():
                self.described.set_exception(error)
            raise

    def stop(self) -> None:
        """Stop, from another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


def test_foreign_missing_and_malformed_names_are_one_and_the_same_answer(target: HostileTarget) -> None:
    names = hostile_names(target)
    assert len(names) > 120

    async def story() -> None:
        expected = [normalised(answer) for answer in await every_way_to_name(target, MISSING)]
        assert {status for status, _, _ in expected} == {404}
        assert len({(status, body) for status, _, body in expected}) == 1
        for name in names:
            answers = await every_way_to_name(target, name)
            assert [normalised(answer) for answer in answers] == expected, repr(name)
            check_keeps_secrets(target, answers)

    uvloop.run(story())
    check_written_nothing(target)


def test_a_name_that_is_no_text_at_all_is_a_400(target: HostileTarget) -> None:
    async def story() -> None:
        for model in (b'"\\ud800"', b'"\xff"', b"null", b"1", b'["support"]', b'{"$ne":null}', b"true"):
            body = b'{"model":' + model + b',"messages":[{"role":"user","content":"hi"}]}'
            answer = await ask(target.port, raw_request(body, token=target.token))
            assert answer.status == 400, model
            check_keeps_secrets(target, [answer])

    uvloop.run(story())


@pytest.mark.parametrize(("fields", "param"), HOSTILE_FIELDS, ids=range(len(HOSTILE_FIELDS)))
def test_a_field_that_is_not_the_tenants_to_set_is_named(
    target: HostileTarget, fields: dict[str, object], param: str | None
) -> None:
    async def story() -> None:
        for model in (target.own_model, target.foreign_names[0]):
            answer = await ask(target.port, raw_request(chat_body(model, **fields), token=target.token))
            assert (answer.status, answer.code) == (400, "unsupported_parameter")
            if param is not None:
                assert answer.json()["error"]["param"] == param  # type: ignore[index]
            if "messages" not in fields and "response_format" not in fields:
                text = json.dumps({"model": model, "prompt": "hi", **fields}).encode()
                answer = await ask(target.port, raw_request(text, token=target.token, path="/v1/completions"))
                assert (answer.status, answer.code) == (400, "unsupported_parameter")

    uvloop.run(story())
    check_written_nothing(target)


@pytest.mark.parametrize("headers", HOSTILE_HEADERS, ids=range(len(HOSTILE_HEADERS)))
def test_a_header_changes_nothing(target: HostileTarget, headers: dict[str, str]) -> None:
    async def story() -> None:
        body = chat_body(target.own_model, max_tokens=4)
        answer = await ask(target.port, raw_request(body, token=target.token, headers=headers))
        assert answer.status == 200
        assert answer.headers["hotset-route"].startswith(f"{target.own_model}@")
        assert answer.headers["x-request-id"] != headers.get("x-request-id")
        assert not set(headers) & set(answer.headers) - {"x-request-id", "hotset-route", "hotset-lane"}
        body = chat_body(target.foreign_names[0])
        foreign = await ask(target.port, raw_request(body, token=target.token, headers=headers))
        missing = await ask(target.port, raw_request(chat_body(MISSING), token=target.token))
        assert normalised(foreign) == normalised(missing)
        check_keeps_secrets(target, [answer, foreign])

    uvloop.run(story())
    check_written_nothing(target)


def test_a_doubled_model_is_refused_whichever_comes_first(target: HostileTarget) -> None:
    async def story() -> None:
        own, foreign = json.dumps(target.own_model).encode(), json.dumps(target.foreign_names[0]).encode()
        messages = b'"messages":[{"role":"user","content":"hi"}]'
        for first, second in ((own, foreign), (foreign, own), (own, own)):
            for key in (b'"model"', b'"model" ', b'"mod\\u0065l"', b'"model"\n'):
                body = b'{"model":' + first + b"," + messages + b"," + key + b":" + second + b"}"
                answer = await ask(target.port, raw_request(body, token=target.token))
                assert (answer.status, answer.code) == (400, "unsupported_parameter")

    uvloop.run(story())


def test_operator_and_engine_paths_do_not_exist(target: HostileTarget) -> None:
    paths = (
        *("/admin/v1", "/admin/v1/tenants", "/metrics", "/docs", "/openapi.json", "/v1/load_lora_adapter"),
        *("/v1/unload_lora_adapter", "/adapters", "/invocations", "/pause", "/sleep", "/collective_rpc", "/tokenize"),
        *("/v1/../admin/v1/tenants", "/v1/%2e%2e/admin/v1/tenants", "//admin/v1/tenants", "/v1/chat/completions/../x"),
        *("/v1/embeddings", "/v1/responses/x/../../admin", "/server_info", "/v1/audio/speech", "/.env"),
    )

    async def story() -> None:
        for path in paths:
            for method in ("GET", "POST", "DELETE"):
                request = raw_request(b"{}", token=target.token, method=method, path=path)
                answer = await ask(target.port, request)
                assert (answer.status, answer.code) == (404, "route_not_found"), path
                check_keeps_secrets(target, [answer])

    uvloop.run(story())


def test_ten_thousand_junk_names_grow_no_metric(target: HostileTarget) -> None:
    (*_, before) = target.written()

    async def ask_often(first: int) -> None:
        reader, writer = await connect(target.port)
        for number in range(first, first + 1000):
            writer.write(raw_request(chat_body(f"junk-{number}"), token=target.token))
            assert (await read_answer(reader)).status == 404
        await close(writer)

    async def story() -> None:
        await asyncio.gather(*(ask_often(first) for first in range(0, 10_000, 1000)))

    uvloop.run(story())
    (*_, after) = target.written()
    assert "junk" not in after
    assert len(after.splitlines()) - len(before.splitlines()) < 20


def test_what_was_listed_is_only_the_tenants_own(target: HostileTarget) -> None:
    async def story() -> None:
        answer = await ask(target.port, raw_request(b"", token=target.token, method="GET", path="/v1/models"))
        ids = [model["id"] for model in answer.json()["data"]]  # type: ignore[index,union-attr]
        assert target.own_model in ids
        check_keeps_secrets(target, [answer])

    uvloop.run(story())


def test_the_request_log_keeps_no_word_of_a_prompt_and_no_token(target: HostileTarget, tmp_path: Path) -> None:
    async def story() -> None:
        body = chat_body(target.own_model)
        body = body.replace(b'"hi"', b'"a-very-private-prompt"')
        await ask(target.port, raw_request(body, token=target.token))
        await ask(target.port, raw_request(b'{"private-broken":"a-very-private-prompt', token=target.token))

    uvloop.run(story())
    for text in target.written():
        assert "private" not in text
        assert target.token not in text
